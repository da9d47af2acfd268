//! A bare byte relay: the least that a hop can cost.

use tokio::net::{TcpListener, TcpStream};

pub async fn run(upstream: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("relay on http://{}", listener.local_addr().unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        let upstream = upstream.to_owned();
        tasks.spawn(async move {
            near.set_nodelay(true).unwrap();
            let mut far = TcpStream::connect(upstream).await.unwrap();
            far.set_nodelay(true).unwrap();
            drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
        });
    }
}
