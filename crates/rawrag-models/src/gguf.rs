//! A chat model of this machine, from a GGUF file that the user names.
//!
//! The forward pass is llama.cpp's, on the processor. A model answers one request at a time, on a
//! thread of its own. Replies are greedy, so a temperature changes nothing. What a model of under
//! three thousand million parameters answers is never reported as answer quality: it is there to
//! exercise systems that need some model.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, OnceLock};
use std::thread;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::{KvCacheType, LlamaContextParams};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

use crate::generate::{GenerateError, Generated, Generator, Options, Token, Turn};
use crate::{ModelIdentity, ModelKind};

mod template;

use template::{Part, Template};

/// A loaded model.
#[derive(Debug)]
pub struct Gguf {
    identity: ModelIdentity,
    /// One at a time reaches the model's thread, and a sender is not shared.
    requests: Mutex<Sender<Request>>,
    template: Option<Template>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// llama.cpp refuses it.
    #[error("{}: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// Its reason.
        reason: String,
    },
}

struct Request {
    prompt: Vec<Part>,
    options: Options,
    reply: Sender<Result<Generated, GenerateError>>,
}

impl Gguf {
    /// Loads a model with a context of this many tokens; without one, the context that it was
    /// trained with, at most 8,192.
    ///
    /// # Errors
    /// [`GgufError`] names the file.
    pub fn load(path: &Path, context: Option<NonZeroU32>) -> Result<Self, GgufError> {
        let refused = |reason: String| GgufError::Model {
            path: path.to_owned(),
            reason,
        };
        let sha256 = crate::store::sha256(path).map_err(|source| GgufError::Read {
            path: path.to_owned(),
            source,
        })?;
        let backend = backend().map_err(&refused)?;
        let model = LlamaModel::load_from_file(backend, path, &LlamaModelParams::default())
            .map_err(|error| refused(error.to_string()))?;
        let name = model
            .meta_val_str("general.name")
            .ok()
            .or_else(|| Some(path.file_stem()?.to_string_lossy().into_owned()));
        let trained = NonZeroU32::new(model.n_ctx_train().min(LARGEST));
        let context = context.or(trained);
        let template = match model.chat_template(None) {
            Err(_) => None,
            Ok(text) => {
                let text = text
                    .to_string()
                    .map_err(|error| refused(error.to_string()))?;
                let spelled = |token| String::from_utf8_lossy(&piece(&model, token)).into_owned();
                let vocab = model.vocab();
                let (begin, end) = (spelled(vocab.bos()), spelled(vocab.eos()));
                Some(Template::new(text, begin, end).map_err(|e| refused(e.to_string()))?)
            }
        };
        let (requests, waiting) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        thread::Builder::new()
            .name("gguf".to_owned())
            .spawn(move || answer(&model, backend, context, &ready, &waiting))
            .map_err(|error| refused(error.to_string()))?;
        match is_ready.recv() {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => return Err(refused(reason)),
            Err(_) => return Err(refused("the model's thread ended".to_owned())),
        }
        Ok(Self {
            identity: ModelIdentity {
                name: name.unwrap_or_else(|| "gguf".to_owned()),
                kind: ModelKind::Chat,
                sha256: Some(sha256),
            },
            requests: Mutex::new(requests),
            template,
        })
    }

    fn ask(&self, prompt: Vec<Part>, options: &Options) -> Result<Generated, GenerateError> {
        let ended =
            || GenerateError::Model("the model's thread ended; start the server again".into());
        let (reply, answer) = mpsc::channel();
        let request = Request {
            prompt,
            options: options.clone(),
            reply,
        };
        self.requests
            .lock()
            .map_err(|_| ended())?
            .send(request)
            .map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }
}

impl Generator for Gguf {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn chat(&self, messages: &[Turn], options: &Options) -> Result<Generated, GenerateError> {
        let template = self.template.as_ref().ok_or_else(|| {
            let text = "the file has none; use a model that was trained for chats";
            GenerateError::Template(text.to_owned())
        })?;
        self.ask(template.render(messages)?, options)
    }

    fn complete(&self, prompt: &str, options: &Options) -> Result<Generated, GenerateError> {
        self.ask(vec![Part::Form(prompt.to_owned())], options)
    }
}

/// The largest context that is taken without being asked for: its cache costs memory.
const LARGEST: u32 = 8192;

/// llama.cpp's number for it. Fused attention and keys and values in half precision each move the
/// log-probabilities, and what a yes weighs is read from these: both are left out, at the price of
/// speed and of twice the memory for a context.
const NO_FLASH_ATTENTION: i32 = 0;

/// Tokens read in one go.
const BATCH: usize = 512;

/// A JSON object, in llama.cpp's grammar notation.
const JSON_OBJECT: &str = r#"
root   ::= object
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( string ":" ws value ws ( "," ws string ":" ws value ws )* )? "}"
array  ::= "[" ws ( value ws ( "," ws value ws )* )? "]"
string ::= "\"" ( [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" hex hex hex hex ) )* "\""
number ::= "-"? ( "0" | [1-9] [0-9]* ) ( "." [0-9]+ )? ( [eE] [-+]? [0-9]+ )?
hex    ::= [0-9a-fA-F]
ws     ::= ( " " | "\n" | "\t" )?
"#;

/// llama.cpp's own state, of which a process has one.
fn backend() -> Result<&'static LlamaBackend, String> {
    static BACKEND: OnceLock<Result<LlamaBackend, String>> = OnceLock::new();
    let backend = BACKEND.get_or_init(|| {
        let mut backend = LlamaBackend::init().map_err(|error| error.to_string())?;
        backend.void_logs();
        Ok(backend)
    });
    backend.as_ref().map_err(Clone::clone)
}

/// The life of the model's thread: one reply after the other, until nobody can ask any more.
fn answer(
    model: &LlamaModel,
    backend: &LlamaBackend,
    context: Option<NonZeroU32>,
    ready: &Sender<Result<(), String>>,
    requests: &Receiver<Request>,
) {
    let threads = thread::available_parallelism().map_or(1, |n| n.get().min(64)) as i32;
    let params = LlamaContextParams::default()
        .with_n_ctx(context)
        .with_n_batch(BATCH as u32)
        .with_flash_attention_policy(NO_FLASH_ATTENTION)
        .with_type_k(KvCacheType::F32)
        .with_type_v(KvCacheType::F32)
        .with_n_threads(threads)
        .with_n_threads_batch(threads);
    let mut context = match model.new_context(backend, params) {
        Ok(context) => context,
        Err(error) => {
            // Nobody hears it only if the caller is gone.
            let _ = ready.send(Err(error.to_string()));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    while let Ok(request) = requests.recv() {
        context.clear_kv_cache();
        let reply = generate(model, &mut context, &request.prompt, &request.options);
        // Whoever asked may have given up.
        let _ = request.reply.send(reply);
    }
}

fn generate(
    model: &LlamaModel,
    context: &mut LlamaContext<'_>,
    prompt: &[Part],
    options: &Options,
) -> Result<Generated, GenerateError> {
    let failed = |error: &dyn std::fmt::Display| GenerateError::Model(error.to_string());
    let tokens = tokenize(model, prompt);
    let room = context.n_ctx() as usize;
    if tokens.is_empty() || tokens.len() >= room {
        return Err(GenerateError::TooLong {
            tokens: tokens.len(),
            context: room,
        });
    }
    let mut grammar = match options.json {
        false => None,
        true => Some(LlamaSampler::grammar(model, JSON_OBJECT, "root").map_err(|e| failed(&e))?),
    };
    let mut batch = LlamaBatch::new(BATCH, 1);
    let mut position = 0;
    for part in tokens.chunks(BATCH) {
        batch.clear();
        for &token in part {
            let is_last = position as usize + 1 == tokens.len();
            batch
                .add(token, position, &[0], is_last)
                .map_err(|e| failed(&e))?;
            position += 1;
        }
        context.decode(&mut batch).map_err(|e| failed(&e))?;
    }
    let most = options
        .max_tokens
        .unwrap_or(usize::MAX)
        .min(room - tokens.len());
    let mut reply = Reply::default();
    while reply.tokens.len() < most {
        let at = batch.n_tokens() - 1;
        let choice = choose(context.get_logits_ith(at), grammar.as_mut()).ok_or_else(|| {
            GenerateError::Model("no token continues the reply as JSON".to_owned())
        })?;
        if model.vocab().is_eog(choice) {
            return Ok(reply.finish(false, tokens.len()));
        }
        if let Some(grammar) = &mut grammar {
            grammar.accept(choice);
        }
        reply.push(token(
            model,
            context.get_logits_ith(at),
            choice,
            options.alternatives,
        ));
        if reply.stops(&options.stop) {
            return Ok(reply.finish(false, tokens.len()));
        }
        batch.clear();
        batch
            .add(choice, position, &[0], true)
            .map_err(|e| failed(&e))?;
        position += 1;
        if reply.tokens.len() < most {
            context.decode(&mut batch).map_err(|e| failed(&e))?;
        }
    }
    Ok(reply.finish(true, tokens.len()))
}

/// The prompt's tokens. Only the form's text may spell control tokens.
fn tokenize(model: &LlamaModel, prompt: &[Part]) -> Vec<LlamaToken> {
    let vocab = model.vocab();
    let mut tokens = Vec::new();
    for part in prompt {
        tokens.extend(match part {
            Part::Form(text) => vocab.tokenize(text.as_bytes(), false, true),
            Part::Said(text) => vocab.tokenize(text.as_bytes(), false, false),
        });
    }
    // A template may or may not write the token that a text begins with.
    if vocab.should_add_bos() && tokens.first() != Some(&vocab.bos()) {
        tokens.insert(0, vocab.bos());
    }
    tokens
}

/// The likeliest token that the grammar allows; of equals, the smallest number. `None` where it allows
/// none: llama.cpp must not be handed a token that it refuses.
fn choose(logits: &[f32], grammar: Option<&mut LlamaSampler>) -> Option<LlamaToken> {
    let numbered = (0..)
        .zip(logits)
        .map(|(id, &logit)| (LlamaToken(id), logit));
    let allowed: Vec<(LlamaToken, f32)> = match grammar {
        None => numbered.collect(),
        Some(grammar) => {
            let data = numbered.map(|(token, logit)| LlamaTokenData::new(token, logit, 0.0));
            let mut array = LlamaTokenDataArray::from_iter(data, false);
            grammar.apply(&mut array);
            array.data.iter().map(|d| (d.id(), d.logit())).collect()
        }
    };
    let best = allowed
        .into_iter()
        .filter(|(_, logit)| logit.is_finite())
        .min_by(|a, b| b.1.total_cmp(&a.1).then(a.0.0.cmp(&b.0.0)));
    best.map(|(token, _)| token)
}

/// What is told of a token that was chosen.
fn token(model: &LlamaModel, logits: &[f32], chosen: LlamaToken, alternatives: usize) -> Token {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&x| f64::from(x - largest).exp()).sum();
    let total = f64::from(largest) + sum.ln();
    let logprob = |LlamaToken(id): LlamaToken| {
        let logit = logits.get(id as usize).copied();
        logit.map_or(f64::NEG_INFINITY, |logit| f64::from(logit) - total)
    };
    let mut ids: Vec<i32> = (0..logits.len() as i32).collect();
    let order = |a: &i32, b: &i32| {
        let logit = |id: &i32| logits[*id as usize];
        logit(b).total_cmp(&logit(a)).then(a.cmp(b))
    };
    let told = alternatives.min(ids.len());
    if told > 0 && told < ids.len() {
        ids.select_nth_unstable_by(told - 1, order);
    }
    ids.truncate(told);
    ids.sort_unstable_by(order);
    let told = ids.into_iter().map(LlamaToken);
    Token {
        bytes: piece(model, chosen),
        logprob: logprob(chosen),
        alternatives: told.map(|id| (piece(model, id), logprob(id))).collect(),
    }
}

fn piece(model: &LlamaModel, token: LlamaToken) -> Vec<u8> {
    match token {
        LlamaToken(..0) => Vec::new(),
        token => model.vocab().token_to_piece(token, true, None),
    }
}

#[derive(Default)]
struct Reply {
    bytes: Vec<u8>,
    tokens: Vec<Token>,
    /// Where a stop text begins.
    end: Option<usize>,
}

impl Reply {
    fn push(&mut self, token: Token) {
        self.bytes.extend_from_slice(&token.bytes);
        self.tokens.push(token);
    }

    /// Whether the last token completed a text at which replies end.
    fn stops(&mut self, stop: &[String]) -> bool {
        let stops = stop.iter().filter(|stop| !stop.is_empty());
        let found = stops.filter_map(|stop| {
            let windows = self.bytes.windows(stop.len());
            windows
                .zip(0..)
                .find(|(window, _)| *window == stop.as_bytes())
        });
        self.end = found.map(|(_, at)| at).min();
        self.end.is_some()
    }

    fn finish(mut self, cut: bool, prompt_tokens: usize) -> Generated {
        self.bytes.truncate(self.end.unwrap_or(usize::MAX));
        Generated {
            text: String::from_utf8_lossy(&self.bytes).into_owned(),
            cut,
            prompt_tokens,
            tokens: self.tokens,
        }
    }
}
