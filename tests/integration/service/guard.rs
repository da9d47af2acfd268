//! Who is let in.

use super::*;

#[tokio::test]
async fn without_a_key_only_this_machine_is_answered() {
    let service = Service::start().await;
    for (name, value, status) in [
        ("host", "evil.example", 421),
        ("x-forwarded-for", "10.0.0.1", 403),
        ("forwarded", "for=1.2.3.4", 403),
        ("via", "1.1 proxy", 403),
        ("origin", "https://evil.example", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-origin", 200),
        ("host", "localhost", 200),
    ] {
        let response = service.get("/api/v1/collections").header(name, value).send().await.unwrap();
        assert_eq!(response.status(), status, "{name}: {value}");
    }
    let own = service.get("/api/v1/collections").header("origin", &service.url).send().await.unwrap();
    assert_eq!(own.status(), 200);
}

#[tokio::test]
async fn it_refuses_to_serve_others_without_a_key() {
    let data = tempfile::tempdir().unwrap();
    let out =
        tailrace().args(["serve", "--listen", "0.0.0.0:0", "--data-dir"]).arg(data.path()).output().await.unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("TAILRACE_ADMIN_KEY"), "{out:?}");
}

#[tokio::test]
async fn a_data_folder_and_a_port_have_one_owner() {
    let service = Service::start().await;
    let address = service.url.trim_start_matches("http://").to_owned();
    let same_folder = tailrace()
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(service.data.path())
        .output()
        .await
        .unwrap();
    assert!(String::from_utf8_lossy(&same_folder.stderr).contains("in use by another"), "{same_folder:?}");
    let other = tempfile::tempdir().unwrap();
    let same_port =
        tailrace().args(["serve", "--listen", &address, "--data-dir"]).arg(other.path()).output().await.unwrap();
    assert!(String::from_utf8_lossy(&same_port.stderr).contains("server.listen"), "{same_port:?}");
}
