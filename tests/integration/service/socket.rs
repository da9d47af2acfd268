//! A WebSocket client for the tests.

use super::*;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest, protocol::CloseFrame};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub struct Socket {
    inner: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
}

impl Service {
    pub async fn socket(&self) -> Socket {
        self.socket_with(&[]).await.unwrap()
    }

    /// The status where the upgrade is refused.
    pub async fn socket_with(&self, headers: &[(&str, &str)]) -> Result<Socket, u16> {
        let url = format!("{}/api/v1/ws", self.url.replace("http://", "ws://"));
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let name: reqwest::header::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((inner, _)) => Ok(Socket { inner }),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }
}

impl Socket {
    pub async fn send(&mut self, message: Value) {
        self.inner.send(Message::Text(message.to_string().into())).await.unwrap();
    }

    pub async fn close(&mut self) {
        let normal = CloseFrame { code: 1000.into(), reason: "".into() };
        self.inner.send(Message::Close(Some(normal))).await.unwrap();
    }

    /// The next message that is not a ping; the close frame where the server closes.
    pub async fn next(&mut self) -> Result<Value, Option<CloseFrame>> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.inner.next()).await.expect("nothing came");
            match message {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(frame))) => return Err(frame),
                Some(Ok(other)) => panic!("{other:?}"),
                None | Some(Err(_)) => return Err(None),
            }
        }
    }

    /// Events of one turn up to its end.
    pub async fn turn(&mut self) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        loop {
            let event = self.next().await.unwrap();
            assert_eq!(event["type"], "event", "{event}");
            let ended = event["state"] == "final" || event["state"] == "aborted";
            events.push(event);
            if ended {
                return events;
            }
        }
    }
}
