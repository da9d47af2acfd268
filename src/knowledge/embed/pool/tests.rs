//! Order, bounds and failures of the pool, with a model that runs when it is told to.

use super::*;
use std::sync::mpsc;
use std::time::Duration;

/// A pool of one thread whose model writes down what it ran and waits for a permit before each run.
struct Gated {
    pool: Arc<Pool>,
    permits: mpsc::Sender<()>,
    begun: Arc<Mutex<mpsc::Receiver<Vec<String>>>>,
}

fn gated(queue: usize, batch: usize) -> Gated {
    let (permits, gate) = mpsc::channel();
    let (tell, begun) = mpsc::channel();
    let gate = Arc::new(Mutex::new(gate));
    let load: Load = Box::new(move || {
        let (gate, tell) = (Arc::clone(&gate), tell.clone());
        Ok(Box::new(move |texts: &[String]| {
            tell.send(texts.to_vec()).unwrap();
            gate.lock().unwrap().recv().unwrap();
            assert!(texts[0] != "panic", "asked to");
            Ok(texts.iter().map(|t| vec![t.len() as f32]).collect())
        }))
    });
    let pool = Arc::new(Pool::new(PoolSize { threads: 1, queue, batch }, load));
    Gated { pool, permits, begun: Arc::new(Mutex::new(begun)) }
}

impl Gated {
    fn ask(&self, texts: &[&str], priority: Priority) -> tokio::task::JoinHandle<Result<Vec<Vec<f32>>, EmbedError>> {
        let (pool, texts) = (Arc::clone(&self.pool), texts.iter().map(|t| (*t).to_owned()).collect());
        tokio::task::spawn_local(async move { pool.embed(texts, priority).await })
    }

    /// What runs next; the run then waits for [`Gated::go`].
    async fn begun(&self) -> Vec<String> {
        let begun = Arc::clone(&self.begun);
        let wait = move || begun.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap();
        tokio::task::spawn_blocking(wait).await.unwrap()
    }

    fn go(&self) {
        self.permits.send(()).unwrap();
    }

    /// Waits until so many texts stand in the queue.
    async fn queued(&self, turn: usize, bulk: usize) {
        let count = || {
            let queue = self.pool.shared.queue();
            (queue.turn.len(), queue.bulk.len())
        };
        tokio::time::timeout(Duration::from_secs(20), async {
            while count() != (turn, bulk) {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("queued {:?}, not {:?}", count(), (turn, bulk)));
    }
}

fn local(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

#[test]
fn a_turn_waits_for_one_bulk_batch_only() {
    local(async {
        let g = gated(8, 1);
        let bulk = g.ask(&["b1", "b2", "b3"], Priority::Bulk);
        assert_eq!(g.begun().await, ["b1"]);
        g.queued(0, 2).await;
        let turn = g.ask(&["turn"], Priority::Turn);
        g.queued(1, 2).await;
        g.go();
        assert_eq!(g.begun().await, ["turn"]);
        g.go();
        assert_eq!(turn.await.unwrap(), Ok(vec![vec![4.0]]));
        for next in ["b2", "b3"] {
            assert_eq!(g.begun().await, [next]);
            g.go();
        }
        assert_eq!(bulk.await.unwrap(), Ok(vec![vec![2.0]; 3]));
    });
}

#[test]
fn no_more_texts_wait_than_the_queue_holds_and_turns_have_room_of_their_own() {
    local(async {
        let g = gated(2, 1);
        let bulk = g.ask(&["1", "2", "3", "4", "5"], Priority::Bulk);
        assert_eq!(g.begun().await, ["1"]);
        // The asker's task has gone as far as it can: it waits for room with two more in hand.
        g.queued(0, 2).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        g.queued(0, 2).await;
        let turn = g.ask(&["turn"], Priority::Turn);
        g.queued(1, 2).await;
        for next in ["turn", "2", "3", "4", "5"] {
            g.go();
            assert_eq!(g.begun().await, [next]);
        }
        g.go();
        assert_eq!(bulk.await.unwrap().unwrap().len(), 5);
        assert_eq!(turn.await.unwrap().unwrap().len(), 1);
    });
}

#[test]
fn who_has_gone_is_not_worked_for() {
    local(async {
        let g = gated(8, 1);
        let first = g.ask(&["first"], Priority::Bulk);
        assert_eq!(g.begun().await, ["first"]);
        let gone = g.ask(&["gone", "gone"], Priority::Turn);
        g.queued(2, 0).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        let last = g.ask(&["last"], Priority::Bulk);
        g.queued(2, 1).await;
        g.go();
        assert_eq!(g.begun().await, ["last"]);
        g.go();
        assert!(first.await.unwrap().is_ok() && last.await.unwrap().is_ok());
    });
}

#[test]
fn a_panic_is_an_error_and_the_next_request_is_served() {
    local(async {
        let g = gated(8, 1);
        let asked = g.ask(&["panic"], Priority::Turn);
        g.go();
        assert_eq!(asked.await.unwrap(), Err(EmbedError::Failed("the model panicked".to_owned())));
        g.go();
        assert_eq!(g.pool.embed(vec!["fine".to_owned()], Priority::Turn).await, Ok(vec![vec![4.0]]));
    });
}

#[test]
fn batches_are_sorted_by_length_and_answers_come_in_order() {
    local(async {
        let g = gated(8, 2);
        let asked = g.ask(&["aaaa", "b", "ccc", "dd", "eeeee"], Priority::Bulk);
        for batch in [&["b", "dd"][..], &["ccc", "aaaa"], &["eeeee"]] {
            assert_eq!(g.begun().await, batch);
            g.go();
        }
        assert_eq!(asked.await.unwrap(), Ok([4.0, 1.0, 3.0, 2.0, 5.0].map(|n| vec![n]).to_vec()));
    });
}

#[test]
fn a_failed_load_is_told_and_tried_again() {
    local(async {
        let tries = Arc::new(Mutex::new(0));
        let load: Load = Box::new(move || {
            let mut tries = tries.lock().unwrap();
            *tries += 1;
            // The head start fails, and so does the first request.
            if *tries <= 2 {
                return Err(EmbedError::ModelMissing(format!("try {tries}")));
            }
            Ok(Box::new(|texts: &[String]| Ok(vec![vec![1.0]; texts.len()])))
        });
        let pool = Pool::new(PoolSize { threads: 1, queue: 1, batch: 1 }, load);
        let ask = || pool.embed(vec!["x".to_owned()], Priority::Turn);
        assert_eq!(ask().await, Err(EmbedError::ModelMissing("try 2".to_owned())));
        assert_eq!(ask().await, Ok(vec![vec![1.0]]));
    });
}

#[test]
fn dropping_the_pool_answers_those_who_wait() {
    local(async {
        let g = gated(8, 1);
        let running = g.ask(&["running"], Priority::Bulk);
        assert_eq!(g.begun().await, ["running"]);
        let (reply, waiting) = oneshot::channel();
        let room = Arc::clone(&g.pool.turn_room).acquire_owned().await.unwrap();
        g.pool.shared.queue().turn.push_back(Job { texts: vec!["x".into()], reply, span: Span::none(), room });
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        // One for each: the waiting one may be taken before the pool closes, and runs then.
        g.go();
        g.go();
        drop(g.pool);
        if let Ok(answer) = waiting.await {
            answer.unwrap();
        }
    });
}
