//! Which family of formats a document belongs to: by name, by declared MIME type, at last by how it begins.
//! Says nothing about whether the bytes are text: that is `sniff`'s part.

use super::RawDocument;

/// A family of formats that are read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Markdown,
    /// Its text is Markdown.
    Html,
    Text,
    Code,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Text => "text",
            Self::Code => "code",
        }
    }
}

const MARKDOWN: &[&str] = &["md", "markdown", "mdown", "mkd", "mdx", "rmd", "qmd"];
const HTML: &[&str] = &["html", "htm", "xhtml", "xht"];
const TEXT: &[&str] = &[
    "txt",
    "text",
    "log",
    "csv",
    "tsv",
    "tab",
    "json",
    "jsonl",
    "ndjson",
    "json5",
    "geojson",
    "xml",
    "xsd",
    "xsl",
    "xslt",
    "svg",
    "rss",
    "atom",
    "yaml",
    "yml",
    "toml",
    "ini",
    "cfg",
    "conf",
    "env",
    "properties",
    "rst",
    "adoc",
    "asciidoc",
    "org",
    "tex",
    "bib",
    "srt",
    "vtt",
    "diff",
    "patch",
    "eml",
    "ics",
    "vcf",
    "po",
    "nfo",
    "me",
    "1st",
    "lock",
];
const CODE: &[&str] = &[
    "rs",
    "py",
    "pyi",
    "js",
    "mjs",
    "cjs",
    "jsx",
    "ts",
    "mts",
    "cts",
    "tsx",
    "java",
    "kt",
    "kts",
    "scala",
    "groovy",
    "go",
    "c",
    "h",
    "cc",
    "cpp",
    "cxx",
    "hh",
    "hpp",
    "hxx",
    "cs",
    "fs",
    "vb",
    "swift",
    "m",
    "mm",
    "rb",
    "php",
    "pl",
    "pm",
    "lua",
    "r",
    "jl",
    "dart",
    "ex",
    "exs",
    "erl",
    "hrl",
    "hs",
    "ml",
    "mli",
    "elm",
    "clj",
    "cljs",
    "lisp",
    "el",
    "scm",
    "zig",
    "nim",
    "v",
    "sv",
    "vhd",
    "vhdl",
    "asm",
    "s",
    "sh",
    "bash",
    "zsh",
    "fish",
    "ps1",
    "bat",
    "cmd",
    "sql",
    "proto",
    "thrift",
    "graphql",
    "gql",
    "css",
    "scss",
    "sass",
    "less",
    "vue",
    "svelte",
    "astro",
    "tf",
    "hcl",
    "nix",
    "cmake",
    "gradle",
    "mk",
    "make",
    "dockerfile",
    "awk",
    "sed",
    "pas",
    "f90",
    "f95",
    "for",
    "cob",
    "ada",
    "adb",
    "ads",
    "d",
    "cr",
    "sol",
    "wgsl",
    "glsl",
    "vert",
    "frag",
    "hlsl",
    "metal",
    "cu",
];
/// Source files without an extension.
const CODE_NAMES: &[&str] = &[
    "dockerfile",
    "containerfile",
    "makefile",
    "gnumakefile",
    "rakefile",
    "gemfile",
    "vagrantfile",
    "jenkinsfile",
    "justfile",
    "procfile",
    "cmakelists.txt",
    "build",
    "build.bazel",
    "workspace",
];
/// Formats that only their own reader can make sense of, whatever the bytes look like.
const CONTAINERS: &[&str] = &[
    "pdf",
    "doc",
    "docx",
    "docm",
    "dot",
    "dotx",
    "xls",
    "xlsx",
    "xlsm",
    "xlsb",
    "ppt",
    "pptx",
    "pptm",
    "odt",
    "ods",
    "odp",
    "odg",
    "rtf",
    "epub",
    "mobi",
    "azw3",
    "pages",
    "numbers",
    "key",
    "zip",
    "gz",
    "tgz",
    "bz2",
    "xz",
    "zst",
    "7z",
    "rar",
    "tar",
    "jar",
    "png",
    "jpg",
    "jpeg",
    "gif",
    "webp",
    "bmp",
    "tif",
    "tiff",
    "ico",
    "heic",
    "avif",
    "mp3",
    "wav",
    "ogg",
    "flac",
    "m4a",
    "mp4",
    "mkv",
    "avi",
    "mov",
    "webm",
    "exe",
    "dll",
    "so",
    "dylib",
    "class",
    "pyc",
    "wasm",
    "ttf",
    "otf",
    "woff",
    "woff2",
    "sqlite",
    "db",
    "parquet",
    "onnx",
    "gguf",
    "safetensors",
];

/// The kind of a file. A declared HTML type counts where the bytes agree: browsers and command-line clients
/// guess the type from the name, so it seldom knows more. `Err`: the format's name.
pub(super) fn of_document(raw: &RawDocument<'_>) -> Result<Kind, String> {
    match by_name(raw.name) {
        Some(Ok(kind))
            if kind != Kind::Html && by_mime(raw.mime) == Some(Ok(Kind::Html)) && begins_as_html(raw.bytes) =>
        {
            Ok(Kind::Html)
        }
        Some(kind) => kind,
        None => by_mime(raw.mime).unwrap_or_else(|| Ok(by_content(raw.bytes))),
    }
}

/// The kind of a fetched page: the declared type first, but `text/plain` says no more than "text".
pub(super) fn of_page(raw: &RawDocument<'_>) -> Result<Kind, String> {
    match by_mime(raw.mime) {
        Some(Ok(Kind::Text)) => match by_name(raw.name) {
            Some(Ok(kind)) if kind != Kind::Html => Ok(kind),
            _ => Ok(Kind::Text),
        },
        Some(kind) => kind,
        None => match by_name(raw.name) {
            // `/page.php` serves HTML, and so may anything else.
            Some(Ok(_)) | None if begins_as_html(raw.bytes) => Ok(Kind::Html),
            Some(kind) => kind,
            None => Ok(Kind::Text),
        },
    }
}

fn by_name(name: &str) -> Option<Result<Kind, String>> {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name).to_lowercase();
    if CODE_NAMES.contains(&file.as_str()) {
        return Some(Ok(Kind::Code));
    }
    let (_, extension) = file.rsplit_once('.')?;
    let known = |list: &[&str]| list.contains(&extension);
    if known(MARKDOWN) {
        Some(Ok(Kind::Markdown))
    } else if known(HTML) {
        Some(Ok(Kind::Html))
    } else if known(TEXT) {
        Some(Ok(Kind::Text))
    } else if known(CODE) {
        Some(Ok(Kind::Code))
    } else if known(CONTAINERS) {
        Some(Err(format!("a .{extension} file")))
    } else {
        None
    }
}

/// `None` where the type says nothing: absent, or any bytes.
fn by_mime(mime: Option<&str>) -> Option<Result<Kind, String>> {
    let essence = mime?.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Some(match essence.as_str() {
        "" | "application/octet-stream" | "binary/octet-stream" | "application/unknown" => return None,
        "text/html" | "application/xhtml+xml" => Ok(Kind::Html),
        "text/markdown" | "text/x-markdown" => Ok(Kind::Markdown),
        "text/javascript"
        | "application/javascript"
        | "application/x-javascript"
        | "application/ecmascript"
        | "text/css" => Ok(Kind::Code),
        "application/x-sh" | "application/x-httpd-php" | "application/sql" | "application/typescript" => Ok(Kind::Code),
        "application/json" | "application/xml" | "application/yaml" | "application/x-yaml" | "application/toml" => {
            Ok(Kind::Text)
        }
        "application/x-ndjson" | "application/jsonl" | "message/rfc822" | "image/svg+xml" => Ok(Kind::Text),
        other if other.starts_with("text/x-") || other.starts_with("text/rust") => Ok(Kind::Code),
        "text/rtf" => Err("text/rtf".to_owned()),
        other if other.starts_with("text/") || other.ends_with("+json") || other.ends_with("+xml") => Ok(Kind::Text),
        other => Err(other.to_owned()),
    })
}

fn by_content(bytes: &[u8]) -> Kind {
    if begins_as_html(bytes) { Kind::Html } else { Kind::Text }
}

/// A doctype or an `<html`, `<head` or `<body` tag after white space and comments.
pub(super) fn begins_as_html(bytes: &[u8]) -> bool {
    // UTF-16 markup has a NUL beside every letter.
    let head: Vec<u8> = bytes.iter().take(4096).copied().filter(|b| *b != 0 && *b < 0x80).collect();
    let mut rest = head.trim_ascii_start();
    while let Some(after) = rest.strip_prefix(b"<!--").or_else(|| rest.strip_prefix(b"<?xml")) {
        let Some(end) = after.iter().position(|b| *b == b'>') else { return false };
        rest = after.get(end + 1..).unwrap_or_default().trim_ascii_start();
    }
    [&b"<!doctype html"[..], b"<html", b"<head", b"<body"]
        .iter()
        .any(|tag| rest.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)))
}
