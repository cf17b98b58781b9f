"""Values of the lexical metrics from the usual libraries, for tests/lexical.rs.

    pip install nltk==3.9.1 rouge-score==0.1.2 numpy==2.4.6
    python lexical.py > lexical.json
"""

import json
import random
import string
from collections import Counter

import numpy
from nltk.stem import PorterStemmer
from nltk.tokenize import NLTKWordTokenizer
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score import rouge_scorer

PAIRS = [
    ["", "a gold answer"],
    ["the answer", ""],
    ["the, and.", "!!"],
    ["She moved to Oslo in May 2021.", "Oslo"],
    ["Oslo", "She moved to Oslo in May 2021."],
    ["Pottery, hiking and painting", "pottery, painting, hiking"],
    ["painting", "pottery, painting, hiking"],
    ["They're running races; the runners ran.", "They run races"],
    ["the the the the", "the cat the"],
    ["A cat sat on the mat, didn't it?", "The cat sat on a mat; it did not."],
    ["Likely yes; she loves the sea", "Yes; since she grew up by the sea"],
    ["No information available in the talk.", "Not mentioned in the conversation"],
    ["It was NOT MENTIONED anywhere", "n/a"],
    ["Ünïcödé Straße café", "STRASSE ünïcödé Café"],
    ["日本語 テスト and more", "日本語 and less"],
    ["It costs $5,000.50 (about 10%)!", "$5,000.50"],
    ["I can't, won't and cannot; 'tis gonna be \"fine\" ... really -- yes.", "I cannot."],
    ["e-mail me @home: 10:30, o'clock's near", "email at home 10:30"],
    ["one two three four five six seven", "one two three four five six seven"],
    ["seven six five four three two one", "one two three four five six seven"],
    ["a\u00a0b\u2003c\x1cd", "a b c d"],
    ["Dr. Smith's dogs' toys. He'll say: \"Hi!\"", "Dr. Smith said hi."],
    ["naïve co-operation (see [1]) {x} <y>", "naive cooperation see 1"],
    ["gimme 'em, d'ye wanna lemme? more'n that", "give me them"],
    ["“curly” ‘quotes’ «guillemets» „low“", "curly quotes"],
]

STEMS = PorterStemmer()
WORDS = NLTKWordTokenizer()


def set_f1(answer, gold):
    tokens = []
    for text in (answer, gold):
        text = text.lower()
        for mark in ".,!?":
            text = text.replace(mark, " ")
        tokens.append(set(text.split()))
    a, g = tokens
    if not g:
        return None
    common = len(a & g)
    return 2 * common / (len(a) + len(g)) if common else 0.0


def locomo_tokens(text):
    import re

    text = "".join(c for c in text.replace(",", "").lower() if c not in string.punctuation)
    return [STEMS.stem(word) for word in re.sub(r"\b(a|an|the|and)\b", " ", text).split()]


def stemmed_f1(answer, gold):
    a, g = locomo_tokens(answer), locomo_tokens(gold)
    if not g:
        return None
    common = sum((Counter(a) & Counter(g)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(a), common / len(g)
    return 2 * precision * recall / (precision + recall)


def multi_answer_f1(answer, gold):
    parts = [[stemmed_f1(part, g) for part in answer.split(",")] for g in gold.split(",")]
    if all(score is None for row in parts for score in row):
        return None
    return float(numpy.mean([max(score or 0.0 for score in row) for row in parts]))


def bleu(answer, gold, order, smoothing):
    a, g = WORDS.tokenize(answer.lower()), WORDS.tokenize(gold.lower())
    if not g:
        return None
    weights = tuple([1 / order] * order)
    value = float(sentence_bleu([g], a, weights=weights, smoothing_function=smoothing))
    return 0.0 if value < 1e-70 else value


def rouge(answer, gold, stemmer):
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stemmer)
    scores = scorer.score(gold, answer)
    return {name: [s.precision, s.recall, s.fmeasure] for name, s in scores.items()}


def bert(rng):
    dimension = 5
    cases = []
    for a, g, weighted in [(3, 4, False), (4, 3, True), (1, 1, False), (6, 2, True)]:
        left, right = rng.normal(size=(a, dimension)), rng.normal(size=(g, dimension))
        left, right = left.astype("float32"), right.astype("float32")
        wl = rng.uniform(0.1, 2, a).astype("float32") if weighted else numpy.ones(a, "float32")
        wr = rng.uniform(0.1, 2, g).astype("float32") if weighted else numpy.ones(g, "float32")
        x, y = left.astype("float64"), right.astype("float64")
        x /= numpy.linalg.norm(x, axis=1, keepdims=True)
        y /= numpy.linalg.norm(y, axis=1, keepdims=True)
        cosine = x @ y.T
        precision = float((cosine.max(1) * wl).sum() / wl.astype("float64").sum())
        recall = float((cosine.max(0) * wr).sum() / wr.astype("float64").sum())
        cases.append({
            "dimension": dimension,
            "answer": left.ravel().tolist(),
            "gold": right.ravel().tolist(),
            "answer_weights": wl.tolist() if weighted else None,
            "gold_weights": wr.tolist() if weighted else None,
            "scores": [precision, recall, 2 * precision * recall / (precision + recall)],
        })
    return cases


def stems(rng):
    """Words made of roots and suffixes, so that every rule of the stemmer is met many times."""
    roots = """rel cond ration val hes digit conform radic differ vile analog vietnam predic oper
    feudal decis hope call form sens triplic form electr good reviv allow infer airlin gyrosc adjust
    defens irrit replac adopt homolog communic activ angular effect bowdl sky fly cry try say enjoy
    hop tan fall hiss fizz fail fil agree plaster bled motor sing conflat troubl siz happi y yy syz
    tie die lie news inn out cann how proc exc succ generous gener uni log apolog bibl café""".split()
    suffixes = """ s es ies sses ed ing eed ied y ational tional enci anci izer bli alli entli eli ousli
    ization ation ator alism iveness fulness ousness aliti iviti biliti fulli logi icate ative alize
    iciti ical ful ness al ance ence er ic able ible ant ement ment ent ion sion tion ou ism ate iti ous
    ive ize e le ll lle ying ly""".split()
    words = sorted({root + suffix for root in roots for suffix in [""] + suffixes})
    words += ["skies", "dying", "lying", "tying", "innings", "outing", "howe", "proceed", "a", "at", "Ties"]
    letters = "aeiouybcdlnstxz"
    words += ["".join(rng.choice(list(letters), rng.integers(3, 9))) for _ in range(1500)]
    return {word: STEMS.stem(word) for word in words}


def main():
    rng = numpy.random.default_rng(7)
    method1 = SmoothingFunction().method1
    cases = []
    for answer, gold in PAIRS:
        cases.append({
            "answer": answer,
            "gold": gold,
            "treebank": WORDS.tokenize(answer),
            "set_f1": set_f1(answer, gold),
            "stemmed_f1": stemmed_f1(answer, gold),
            "multi_answer_f1": multi_answer_f1(answer, gold),
            "bleu1": bleu(answer, gold, 1, method1),
            "bleu4_method1": bleu(answer, gold, 4, method1),
            "bleu4": bleu(answer, gold, 4, None),
            "rouge": rouge(answer, gold, False),
            "rouge_stemmed": rouge(answer, gold, True),
        })
    print(json.dumps({"cases": cases, "bert": bert(rng), "stems": stems(rng)}, indent=0))


main()
