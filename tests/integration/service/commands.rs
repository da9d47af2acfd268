//! How commands end: 0 where all that was asked for was done, else 1.

use super::*;
use std::process::Stdio;

/// `arguments` on a data folder of its own: the exit code, and what it said.
async fn run(arguments: &[&str], out: Stdio) -> (Option<i32>, String) {
    let data = tempfile::tempdir().unwrap();
    let mut command = tailrace();
    command.env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1").env("TAILRACE__LLM__MAX_RETRIES", "0");
    command.env("TAILRACE__LLM__PROVIDER", "openai").env("TAILRACE__LLM__MODEL", "m");
    command.args(arguments).arg("--data-dir").arg(data.path()).stdin(Stdio::null()).stdout(out);
    let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().await.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn what_could_not_be_done_ends_with_1_and_says_what() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("good.md"), "# Otter\n\nThe otter swims.").unwrap();
    std::fs::write(path("blank.md"), " \n").unwrap();
    let (good, blank, missing) = (path("good.md"), path("blank.md"), path("missing.md"));
    for (arguments, code, says) in [
        (vec!["ingest", &good], 0, ""),
        (vec!["ingest", &missing], 1, "missing.md was refused: cannot be read"),
        (vec!["ingest", &good, &missing], 1, "missing.md was refused"),
        (vec!["ingest", &blank], 1, "blank.md was refused"),
        (vec!["ingest", folder.path().to_str().unwrap()], 1, "blank.md was refused"),
        (vec!["chat", "Where does the otter swim?"], 1, "127.0.0.1:1 cannot be reached"),
    ] {
        let (ended, said) = run(&arguments, Stdio::piped()).await;
        assert_eq!(ended, Some(code), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

/// It is passed over, like whatever else cannot be read.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_name_that_is_no_utf_8_does_not_end_the_command() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.md"), "# Otter\n\nThe otter swims.").unwrap();
    std::fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"gr\xfcn.txt")), "x").unwrap();
    let (ended, said) = run(&["ingest", "--json", folder.path().to_str().unwrap()], Stdio::piped()).await;
    assert_eq!(ended, Some(0), "{said}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_result_that_cannot_be_written_is_no_success() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let (ended, said) = run(&["config"], full.into()).await;
    assert!(ended == Some(1) && said.contains("could not be written"), "{ended:?}: {said}");
    // A reader that has read enough is none.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(run(&["config"], writer.into()).await.0, Some(0));
}
