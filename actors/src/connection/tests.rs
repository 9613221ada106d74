//! The connection on a fake link, under paused time.

mod dial;
mod fake;
mod keepalive;
mod kill;
mod logs;
mod order;
mod random;
mod rotation;
mod transfers;

use crate::{
    fakes::{SECOND, Stage, until},
    system::{Addr, AskError, Message},
};
use fake::{Answer, Ask, Dial, FakeLink, Fault, Ping};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::Instant};

type Msg = super::ConnectionMsg<FakeLink>;
type Brought = Result<Result<(), Fault>, AskError>;
type Refusal = super::link::Refusal<Fault>;

const PATH: &str = "host/kvm/a";
/// What a dial of the fake takes.
const DIALLING: Duration = Duration::from_millis(100);

struct Bench {
    stage: Stage,
    addr: Addr<Msg>,
    link: FakeLink,
}

async fn bench() -> Bench {
    let (link, addr) = (FakeLink::default(), Addr::default());
    let far = Arc::new(link.clone());
    let make = move || super::ConnectionActor::new(Arc::clone(&far));
    Bench {
        stage: Stage::one(PATH, &addr, make).await,
        addr,
        link,
    }
}

impl Bench {
    /// Asks and waits for as long as it takes.
    fn ask(&self, ask: Ask) -> JoinHandle<Result<Answer, AskError>> {
        // Sent here and now, so that the order of asking is the order of arrival.
        let (reply, answer) = tokio::sync::oneshot::channel();
        let request = ask.answered_at(reply.into());
        let sent = self.addr.tell(Msg::Request(request));
        tokio::spawn(async move {
            sent.map_err(|_| AskError::Down)?;
            answer.await.map_err(|_| AskError::Dropped)
        })
    }

    fn asks(&self, count: usize) -> Vec<JoinHandle<Result<Answer, AskError>>> {
        (0..count).map(|n| self.ask(Ask::new(n))).collect()
    }

    fn bring(&self, cargo: &str) -> JoinHandle<Brought> {
        self.bring_within(cargo, 3600 * SECOND)
    }

    fn bring_within(&self, cargo: &str, patience: Duration) -> JoinHandle<Brought> {
        let (addr, cargo) = (self.addr.clone(), cargo.to_owned());
        tokio::spawn(async move {
            let ask = |reply| Msg::Transfer(cargo, reply);
            addr.ask(patience, ask).await
        })
    }

    /// Has a session.
    async fn open(&self) -> usize {
        let session = self.ask(Ask::new(0)).await.expect("ends");
        session.expect("is answered").expect("is served")
    }
}

/// What all answers have to be.
async fn all(answers: Vec<JoinHandle<Result<Answer, AskError>>>, same: &Result<Answer, AskError>) {
    for answer in answers {
        assert_eq!(&answer.await.expect("ends"), same);
    }
}

fn unreached(why: Option<&str>) -> Answer {
    Err(Refusal::Unreached(why.map(|why| Fault(why.into()))))
}

#[test]
fn messages_have_the_names_that_metrics_show() {
    let served = Msg::Served(crate::system::Epoch::next());
    assert_eq!(served.name(), "Served");
}
