//! Benchmark data: what is published where, whether it is whole, and fetching it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::corpus::releases::{RELEASES, Release, check, release};
use crate::corpus::synthetic::{self, Recipe, RecipeError};
use crate::corpus::{Format, LoadError, read};

use super::Weights;
use super::failure::Failure;

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// The benchmarks: where each is published, and under which licence
    List,
    /// Read files and compare what they hold with what was published
    Check {
        /// Files or folders, each read by itself
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// The format of all of them [default: told from the content]
        #[arg(long)]
        format: Option<Format>,
    },
    /// Fetch a benchmark from its publisher, or from a folder
    Fetch {
        /// Its name, as `rawrag data list` shows it
        name: String,
        /// A folder that holds the files as published
        #[arg(long, value_name = "PATH")]
        from: Option<PathBuf>,
        /// Where to put them
        #[arg(long, value_name = "DIR", default_value = "data/benchmarks")]
        to: PathBuf,
    },
    /// Make synthetic histories with questions, of which the truth is known by construction
    Generate {
        /// The recipe's TOML file
        recipe: PathBuf,
        /// The folder to fill, which holds no history yet
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

pub(super) fn run(weights: &Weights, command: Command) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match command {
        Command::List => {
            for release in RELEASES {
                writeln!(out, "{:20} {}", release.key, release.about)?;
                writeln!(
                    out,
                    "{:20} {}; licence: {}",
                    "", release.page, release.licence
                )?;
            }
            Ok(())
        }
        Command::Check { paths, format } => {
            let mut deviations = 0;
            for path in paths {
                let report = read::<LoadError>(&path, format, |_| Ok(()))?;
                writeln!(out, "{}\n{report}", path.display())?;
                let found = check(&report);
                deviations += found.len();
                for deviation in found {
                    writeln!(out, "not as published: {deviation}")?;
                }
            }
            match deviations {
                0 => Ok(()),
                n => Err(Failure::Input(
                    format!("{n} counts are not the published ones").into(),
                )),
            }
        }
        Command::Fetch { name, from, to } => {
            let release = release(&name).ok_or_else(|| {
                let known: Vec<&str> = RELEASES.iter().map(|release| release.key).collect();
                let known = known.join(", ");
                Failure::Usage(format!("no benchmark is called {name}; known are {known}"))
            })?;
            if weights.offline && from.is_none() {
                let text = "--offline forbids fetching; name a folder with --from";
                return Err(Failure::Usage(text.into()));
            }
            let source = match from {
                Some(folder) => Source::Folder(folder),
                None => Source::address(release.address),
            };
            let folder = to.join(release.key);
            fetch(release, &source, &folder, &mut out)
        }
        Command::Generate { recipe, out: to } => {
            let wrong = |error: &dyn std::fmt::Display| {
                Failure::Input(format!("{}: {error}", recipe.display()).into())
            };
            let text = fs::read_to_string(&recipe).map_err(|error| wrong(&error))?;
            let made: Recipe = text.parse().map_err(|error: RecipeError| wrong(&error))?;
            let count = |text: &str| crate::chunking::Encoding::Cl100kBase.count(text);
            synthetic::write(&made, &count, &to)?;
            let report = read::<LoadError>(&to, None, |_| Ok(()))?;
            Ok(writeln!(out, "{}\n{report}", to.display())?)
        }
    }
}

/// Where files come from.
enum Source {
    Folder(PathBuf),
    /// An address that paths are appended to.
    Http(ureq::Agent, String),
}

impl Source {
    fn address(address: &str) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .http_status_as_error(false)
            .user_agent(concat!("rawrag/", env!("CARGO_PKG_VERSION")))
            .build();
        Self::Http(agent.into(), address.to_owned())
    }
}

/// Puts every file of a release into a folder; those that are there already are only checked.
fn fetch(
    release: &Release,
    source: &Source,
    folder: &Path,
    out: &mut impl Write,
) -> Result<(), Failure> {
    for file in release.files {
        for path in file.paths() {
            place(source, &path, file.sha256, folder, out)?;
        }
    }
    if let (Some(column), Some(first)) = (release.links, release.files.first()) {
        for link in links(&folder.join(first.path), column)? {
            place(source, &link, None, folder, out)?;
        }
    }
    writeln!(out, "{} is in {}", release.key, folder.display())?;
    Ok(())
}

/// The different paths in a column of a CSV, in order.
fn links(csv: &Path, column: &str) -> Result<Vec<String>, Failure> {
    let input = |problem: String| Failure::Input(format!("{}: {problem}", csv.display()).into());
    let mut reader = csv::Reader::from_path(csv).map_err(|e| input(e.to_string()))?;
    let header = reader.headers().map_err(|e| input(e.to_string()))?;
    let at = header
        .iter()
        .position(|name| name == column)
        .ok_or_else(|| input(format!("there is no column {column}")))?;
    let mut links = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| input(e.to_string()))?;
        let link = record.get(at).unwrap_or_default().trim();
        if !plain(link) {
            return Err(input(format!("{link:?} is no path below the release")));
        }
        if !links.iter().any(|known| known == link) {
            links.push(link.to_owned());
        }
    }
    Ok(links)
}

/// Whether a path stays below the folder that it is appended to.
fn plain(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Puts one file in its place, under its name only once it is whole and its hash is right.
fn place(
    source: &Source,
    path: &str,
    sha256: Option<&str>,
    folder: &Path,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let to = folder.join(path);
    if to.is_file() {
        match sha256 {
            Some(sha256) => verify(&to, sha256)?,
            None => writeln!(out, "{path}: there already, and no hash is on record")?,
        }
        return Ok(());
    }
    let part = part_of(&to);
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let announced = match source {
        Source::Folder(from) => {
            let from = from.join(path);
            fs::copy(&from, &part).map_err(|e| {
                Failure::Input(
                    format!("{}: {e}; give a folder that holds it", from.display()).into(),
                )
            })?;
            None
        }
        Source::Http(agent, address) => download(agent, &format!("{address}{path}"), &part)?,
    };
    if let Some(sha256) = sha256.or(announced.as_deref())
        && let Err(failure) = verify(&part, sha256)
    {
        // What is wrong must not be resumed.
        fs::remove_file(&part)?;
        return Err(failure);
    }
    fs::rename(&part, &to)?;
    writeln!(out, "{path}: {} bytes", to.metadata()?.len())?;
    Ok(())
}

/// The name that a file has until it is whole.
fn part_of(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn verify(file: &Path, sha256: &str) -> Result<(), Failure> {
    let mut hasher = Sha256::new();
    let mut input = File::open(file)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match input.read(&mut buffer)? {
            0 => break,
            n => hasher.update(&buffer[..n]),
        }
    }
    let found: String = hasher
        .finalize()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    if found == sha256 {
        return Ok(());
    }
    let text = format!(
        "{}: the SHA-256 is {found}, not {sha256}; the publisher's file has changed, or this is \
         another",
        file.display()
    );
    Err(Failure::Input(text.into()))
}

/// Appends to `part` what is missing of the file at `url`; the SHA-256 that the hub states for it,
/// if it states one.
fn download(agent: &ureq::Agent, url: &str, part: &Path) -> Result<Option<String>, Failure> {
    let failed = |reason: String| Failure::Service(format!("{url}: {reason}").into());
    let have = part.metadata().map_or(0, |meta| meta.len());
    let mut request = agent.get(url);
    if have > 0 {
        request = request.header("range", format!("bytes={have}-"));
    }
    let mut response = request.call().map_err(|e| failed(e.to_string()))?;
    let status = response.status().as_u16();
    let announced = announced_sha256(agent, url);
    let mut file = match status {
        // The whole file, whatever was asked for.
        200 => File::create(part)?,
        206 => {
            let range = response
                .headers()
                .get("content-range")
                .and_then(|value| value.to_str().ok());
            let continues = range.is_some_and(|r| r.starts_with(&format!("bytes {have}-")));
            if !continues {
                return Err(failed(format!(
                    "it sent the range {range:?}, not from {have}"
                )));
            }
            OpenOptions::new().append(true).open(part)?
        }
        // Nothing lies beyond what is here: it was cut between the last byte and the rename.
        416 if have > 0 => {
            let range = response
                .headers()
                .get("content-range")
                .and_then(|value| value.to_str().ok());
            if range == Some(format!("bytes */{have}").as_str()) {
                return Ok(announced);
            }
            let part = part.display();
            return Err(failed(format!("{part} is longer than the file: remove it")));
        }
        _ => return Err(failed(format!("HTTP status {status}"))),
    };
    let length = response.body().content_length();
    let copied = io::copy(&mut response.body_mut().as_reader(), &mut file)
        .map_err(|e| failed(format!("{e}; the same command goes on from here")))?;
    if length.is_some_and(|length| length != copied) {
        let reason = "the connection ended early; the same command goes on from here";
        return Err(failed(reason.into()));
    }
    file.sync_all()?;
    Ok(announced)
}

/// The SHA-256 that the model hub states for a large file in the answer that redirects to it.
fn announced_sha256(agent: &ureq::Agent, url: &str) -> Option<String> {
    let request = agent
        .head(url)
        .config()
        .max_redirects(0)
        .max_redirects_will_error(false)
        .build();
    let response = request.call().ok()?;
    let tag = response.headers().get("x-linked-etag")?.to_str().ok()?;
    let sha256 = tag.trim_matches('"').to_ascii_lowercase();
    (sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit())).then_some(sha256)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::path::Path;
    use std::thread;

    use sha2::{Digest, Sha256};

    use super::{Source, fetch, part_of, place};
    use crate::corpus::Benchmark;
    use crate::corpus::releases::{File, Release};

    const BODY: &[u8] = b"history, line by line, of some length";

    /// A publisher of `files`, which sends at most `cut` bytes of a body before it hangs up, once
    /// for each file; `ranges` says whether it heeds them.
    fn serve(files: &'static [(&'static str, &'static [u8])], cut: usize, ranges: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        thread::spawn(move || {
            let mut cuts = vec![true; files.len()];
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let head: Vec<String> = BufReader::new(stream.try_clone().unwrap())
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let request = head.first().cloned().unwrap_or_default();
                let path = request.split(' ').nth(1).unwrap_or_default();
                let known = files.iter().position(|(name, _)| path[1..] == **name);
                let Some(at) = known else {
                    let none =
                        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    stream.write_all(none).unwrap();
                    continue;
                };
                let body = files[at].1;
                let from = head
                    .iter()
                    .find_map(|line| line.strip_prefix("range: bytes=")?.strip_suffix('-'))
                    .filter(|_| ranges)
                    .map(|from| from.parse::<usize>().unwrap());
                let status = match from {
                    Some(from) if from >= body.len() => {
                        format!(
                            "416 Range Not Satisfiable\r\nContent-Range: bytes */{}",
                            body.len()
                        )
                    }
                    Some(from) => {
                        let (last, all) = (body.len() - 1, body.len());
                        format!("206 Partial Content\r\nContent-Range: bytes {from}-{last}/{all}")
                    }
                    None => "200 OK".to_owned(),
                };
                let rest = &body[from.unwrap_or(0).min(body.len())..];
                let length = rest.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).unwrap();
                if request.starts_with("HEAD") {
                    continue;
                }
                let sent = if std::mem::take(&mut cuts[at]) {
                    cut
                } else {
                    length
                };
                stream.write_all(&rest[..sent.min(length)]).unwrap();
            }
        });
        address
    }

    fn sha256(bytes: &[u8]) -> String {
        Sha256::digest(bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }

    fn placed(source: &Source, sha256: Option<&str>, folder: &Path) -> Result<(), String> {
        place(source, "a/file.json", sha256, folder, &mut Vec::new())
            .map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_cut_download_goes_on_where_it_was_cut() {
        for ranges in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let source = Source::address(&serve(&[("a/file.json", BODY)], 10, ranges));
            let file = folder.path().join("a/file.json");
            let hash = sha256(BODY);
            let error = placed(&source, Some(&hash), folder.path()).unwrap_err();
            assert!(error.starts_with("Service"), "{error}");
            assert!(!file.exists());
            assert_eq!(fs::read(part_of(&file)).unwrap(), &BODY[..10]);
            placed(&source, Some(&hash), folder.path()).unwrap();
            assert_eq!(fs::read(&file).unwrap(), BODY);
            assert!(!part_of(&file).exists());
            // What is there is not fetched again, only checked.
            fs::write(&file, "altered").unwrap();
            let error = placed(&source, Some(&hash), folder.path()).unwrap_err();
            assert!(error.contains("SHA-256"), "{error}");
        }
    }

    #[test]
    fn a_wrong_hash_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::address(&serve(&[("a/file.json", BODY)], 999, true));
        let error = placed(&source, Some(&sha256(b"other")), folder.path()).unwrap_err();
        assert!(
            error.starts_with("Input") && error.contains("SHA-256"),
            "{error}"
        );
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 0);
    }

    /// Cut between the last byte and the rename: what is there is whole.
    #[test]
    fn a_whole_part_is_taken_and_a_longer_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::address(&serve(&[("a/file.json", BODY)], 999, true));
        let part = part_of(&folder.path().join("a/file.json"));
        fs::create_dir_all(part.parent().unwrap()).unwrap();
        fs::write(&part, [BODY, b"more"].concat()).unwrap();
        let error = placed(&source, None, folder.path()).unwrap_err();
        assert!(error.contains("longer"), "{error}");
        fs::write(&part, BODY).unwrap();
        placed(&source, None, folder.path()).unwrap();
        assert_eq!(fs::read(folder.path().join("a/file.json")).unwrap(), BODY);
    }

    const LINKING: Release = Release {
        key: "linking",
        benchmark: Benchmark::Personamem,
        about: "",
        page: "",
        licence: "",
        address: "",
        files: &[File {
            path: "q.csv",
            sha256: None,
        }],
        links: Some("history"),
        content: None,
    };

    #[test]
    fn linked_files_are_fetched_and_none_outside() {
        let folder = tempfile::tempdir().unwrap();
        let address = serve(
            &[
                ("q.csv", b"id,history\n1,h/1.json\n2,h/2.json\n3,h/1.json\n"),
                ("h/1.json", b"[]"),
                ("h/2.json", b"{}"),
            ],
            999,
            true,
        );
        let mut said = Vec::new();
        fetch(
            &LINKING,
            &Source::address(&address),
            folder.path(),
            &mut said,
        )
        .unwrap();
        assert_eq!(fs::read(folder.path().join("h/2.json")).unwrap(), b"{}");
        let copy = tempfile::tempdir().unwrap();
        let from = Source::Folder(folder.path().to_owned());
        fetch(&LINKING, &from, copy.path(), &mut said).unwrap();
        assert_eq!(fs::read(copy.path().join("h/1.json")).unwrap(), b"[]");
        let outside = serve(&[("q.csv", b"id,history\n1,../1.json\n")], 999, true);
        let to = tempfile::tempdir().unwrap();
        let error = fetch(&LINKING, &Source::address(&outside), to.path(), &mut said).unwrap_err();
        assert!(
            format!("{error:?}").contains("below the release"),
            "{error:?}"
        );
    }
}
