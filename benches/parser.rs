//! The inline grammar's speed: 4-byte and 16 KiB pieces, plain text and what looks like calls, beside
//! a memcpy of the same pieces in the same run.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use tailrace::engine::xml_parser::{Segment, XmlParseState};

const CAP: usize = 64 * 1024;
const LEN: usize = 1 << 20;

/// Prose as models write it: paragraphs, list items, some inline code.
fn prose() -> String {
    let paragraph = "Parental leave is granted for up to twelve months; the request goes to `hr@example.org` in \
                     writing, at least seven weeks ahead.\n- Keep a copy of it.\n- Ask early < late.\n\n";
    paragraph.repeat(LEN / paragraph.len())
}

fn plain() -> String {
    let line =
        "Parental leave is granted for up to twelve months and the request goes to human resources in writing.\n";
    line.repeat(LEN / line.len())
}

fn repeated(pattern: &str) -> String {
    pattern.repeat(LEN / pattern.len())
}

fn parse(text: &str, size: usize, out: &mut Vec<Segment>) -> u32 {
    let mut parser = XmlParseState::new(CAP);
    let mut from = 0;
    while from < text.len() {
        let to = text.len().min(from + size);
        parser.feed(&text[from..to], out);
        black_box(&out);
        out.clear();
        from = to;
    }
    parser.flush(out);
    out.clear();
    parser.parse_errors()
}

/// What any relay has to do: each piece becomes a string of its own.
fn copy(text: &str, size: usize) {
    for piece in text.as_bytes().chunks(size) {
        black_box(piece.to_vec());
    }
}

fn parser(c: &mut Criterion) {
    let texts = [
        ("plain", plain()),
        ("prose", prose()),
        ("calls", repeated("So: <tool name=\"search_kb\" top=\"3\">{\"query\":\"parental leave\"}</tool> and on. ")),
        ("near openers", repeated("<<<<tool <to<tool n</tool>")),
        ("near closers", "<tool name=\"a\">".to_owned() + &repeated("</too</tool x<")),
        ("ticks", repeated("` `` <tool name=\"a\">x</tool> ")),
    ];
    for size in [4, 16 * 1024] {
        let mut group = c.benchmark_group(format!("parser/{size}"));
        group.sample_size(20);
        for (name, text) in &texts {
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_function(*name, |b| {
                b.iter_batched_ref(|| Vec::with_capacity(64), |out| parse(text, size, out), BatchSize::SmallInput);
            });
        }
        let text = &texts[0].1;
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("memcpy", |b| b.iter(|| copy(text, size)));
        group.finish();
    }
}

criterion_group!(benches, parser);
criterion_main!(benches);
