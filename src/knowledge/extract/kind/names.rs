//! What a file's name says of its format, as lists of extensions.

use super::Kind;

const MARKDOWN: &str = "md markdown mdown mkd mdx rmd qmd";
const HTML: &str = "html htm xhtml xht";
const TABLE: &str = "csv tsv tab";
const JSON: &str = "json geojson";
const LINES: &str = "jsonl ndjson";
const XML: &str = "xml xsd xsl xslt svg rss atom";
const MAIL: &str = "eml";
const TEXT: &str = "txt text log json5 yaml yml toml ini cfg conf env properties rst adoc asciidoc org tex bib srt vtt diff \
     patch ics vcf po nfo me 1st lock";
const CODE: &str = "rs py pyi js mjs cjs jsx ts mts cts tsx java kt kts scala groovy go c h cc cpp cxx hh hpp hxx cs fs vb \
     swift m mm rb php pl pm lua r jl dart ex exs erl hrl hs ml mli elm clj cljs lisp el scm zig nim v sv vhd \
     vhdl asm s sh bash zsh fish ps1 bat cmd sql proto thrift graphql gql css scss sass less vue svelte astro \
     tf hcl nix cmake gradle mk make dockerfile awk sed pas f90 f95 for cob ada adb ads d cr sol wgsl glsl \
     vert frag hlsl metal cu";
/// Source files without an extension.
const CODE_NAMES: &str = "dockerfile containerfile makefile gnumakefile rakefile gemfile vagrantfile jenkinsfile justfile procfile \
     cmakelists.txt build build.bazel workspace";
/// Formats whose bytes say what they are; where they do not, the name is wrong and the bytes decide.
const TOLD_BY_CONTENT: &str = "pdf docx docm dotx xlsx xlsm xltx pptx pptm ppsx epub zip";
/// Formats that only their own reader could make sense of, whatever the bytes look like.
const OTHERS: &str = "doc dot xls xlsb ppt odt ods odp odg rtf mobi azw3 pages numbers key gz tgz bz2 xz zst 7z rar tar jar \
     png jpg jpeg gif webp bmp tif tiff ico heic avif mp3 wav ogg flac m4a mp4 mkv avi mov webm exe dll so \
     dylib class pyc wasm ttf otf woff woff2 sqlite db parquet onnx gguf safetensors";

/// The kind that a name means; `Err`: a format that cannot be read. `None` where the name says nothing.
pub(super) fn by_name(name: &str) -> Option<Result<Kind, String>> {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name).to_lowercase();
    if listed(CODE_NAMES, &file) {
        return Some(Ok(Kind::Code));
    }
    let (_, extension) = file.rsplit_once('.')?;
    if listed(OTHERS, extension) {
        return Some(Err(format!("a .{extension} file")));
    }
    if listed(TOLD_BY_CONTENT, extension) {
        return None;
    }
    let kinds = [
        (MARKDOWN, Kind::Markdown),
        (HTML, Kind::Html),
        (TABLE, Kind::Csv),
        (JSON, Kind::Json),
        (LINES, Kind::Ndjson),
        (XML, Kind::Xml),
        (MAIL, Kind::Email),
        (TEXT, Kind::Text),
        (CODE, Kind::Code),
    ];
    kinds.into_iter().find(|(list, _)| listed(list, extension)).map(|(_, kind)| Ok(kind))
}

fn listed(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}
