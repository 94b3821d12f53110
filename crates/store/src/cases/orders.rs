//! Orders: what the agent of a host is to do, and what it answered. The agent fetches them, because hosts listen nowhere.

use super::sql::Row;
use super::{CaseStore, machines};
use crate::Result;
use surefoot_model::MachineId;

/// How far an order has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderState {
    /// Nobody has fetched it.
    Waiting,
    /// The agent has it; whether it has done it is not known.
    Fetched,
    /// The agent answered.
    Answered,
    /// The answer was read by a controller.
    Consumed,
    /// It is not to be done any more, and nobody had fetched it.
    Withdrawn,
    /// It was for a machine that no longer has the name of the host. Nobody had fetched it.
    Displaced,
    /// The same, and that machine had fetched it: whether it was done is unknown.
    DisplacedFetched,
}

impl OrderState {
    fn as_str(self) -> &'static str {
        match self {
            OrderState::Waiting => "waiting",
            OrderState::Fetched => "fetched",
            OrderState::Answered => "answered",
            OrderState::Consumed => "consumed",
            OrderState::Withdrawn => "withdrawn",
            OrderState::Displaced => "displaced",
            OrderState::DisplacedFetched => "displaced_fetched",
        }
    }

    fn of(word: &str) -> Self {
        match word {
            "waiting" => OrderState::Waiting,
            "answered" => OrderState::Answered,
            "consumed" => OrderState::Consumed,
            "withdrawn" => OrderState::Withdrawn,
            "displaced" => OrderState::Displaced,
            "displaced_fetched" => OrderState::DisplacedFetched,
            _ => OrderState::Fetched,
        }
    }
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOrder {
    /// Names the attempt for good.
    pub token: String,
    /// Whose agent is to do it.
    pub host: String,
    /// How far it has come.
    pub state: OrderState,
    /// What is to be done; JSON of the remedies.
    pub body: String,
    /// What the agent answered; JSON of the remedies, empty until then.
    pub answer: String,
    /// When it came into its state, `CLOCK_REALTIME` of the store.
    pub changed_realtime_ns: u64,
}

const COLUMNS: &str = "token, host, state, body, answer, changed_ns";

impl CaseStore {
    /// Gives an order; one that was given before stays as it is. It is for the machine that had the name of the host at `for_ns`: where
    /// the name came to another one since, it is [`OrderState::Displaced`], and not kept.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn order(&mut self, token: &str, host: &str, body: &str, for_ns: u64) -> Result<KeptOrder> {
        self.connected.transaction("giving an order", false, |sql| {
            let took_over_ns = machines::took_over_ns(sql, host)?;
            if took_over_ns > for_ns {
                return Ok(KeptOrder {
                    token: token.to_owned(),
                    host: host.to_owned(),
                    state: OrderState::Displaced,
                    body: body.to_owned(),
                    answer: String::new(),
                    changed_realtime_ns: took_over_ns,
                });
            }
            let now_ns = sql.now_ns()?;
            let words = "INSERT INTO remedy_order (token, host, state, changed_ns, body, answer) VALUES ($1, $2, $3, $4, $5, '')
                ON CONFLICT (token) DO NOTHING";
            let state = OrderState::Waiting.as_str();
            sql.run(words, &[token.into(), host.into(), state.into(), now_ns.into(), body.into()])?;
            let rows = sql.rows(&format!("SELECT {COLUMNS} FROM remedy_order WHERE token = $1"), &[token.into()])?;
            Ok(rows.first().map(order).unwrap_or_else(|| order(&Row(Vec::new()))))
        })
    }

    /// An order, where there is one of this token.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn order_of(&mut self, token: &str) -> Result<Option<KeptOrder>> {
        let words = format!("SELECT {COLUMNS} FROM remedy_order WHERE token = $1");
        self.connected.ask("reading an order", |sql| Ok(sql.rows(&words, &[token.into()])?.first().map(order)))
    }

    /// Orders of a host that its agent has, or whose answers nobody has read.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn orders_under_way(&mut self, host: &str) -> Result<Vec<KeptOrder>> {
        let words = format!("SELECT {COLUMNS} FROM remedy_order WHERE host = $1 AND state IN ('fetched', 'answered')");
        self.connected.ask("reading orders", |sql| Ok(sql.rows(&words, &[host.into()])?.iter().map(order).collect()))
    }

    /// Notes that the answer of an order was read.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn consume(&mut self, token: &str) -> Result<()> {
        self.connected.transaction("noting an answer", false, |sql| {
            let words = "UPDATE remedy_order SET state = 'consumed' WHERE token = $1 AND state = 'answered'";
            sql.run(words, &[token.into()]).map(drop)
        })
    }

    /// Forgets an order that was answered: its token is used again for the next part of the same attempt.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn forget_order(&mut self, token: &str) -> Result<()> {
        self.connected.transaction("forgetting an order", false, |sql| {
            let words = "DELETE FROM remedy_order WHERE token = $1 AND state IN ('answered', 'consumed')";
            sql.run(words, &[token.into()]).map(drop)
        })
    }

    /// Takes an order back that nobody has fetched. Whether it is withdrawn now, so that it is never done.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn withdraw(&mut self, token: &str) -> Result<bool> {
        self.connected.transaction("withdrawing an order", false, |sql| {
            let now_ns = sql.now_ns()?;
            let words = "UPDATE remedy_order SET state = 'withdrawn', changed_ns = $1 WHERE token = $2 AND state IN ('waiting', 'withdrawn')";
            Ok(sql.run(words, &[now_ns.into(), token.into()])? > 0)
        })
    }

    /// The hosts that have orders to do.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn hosts_with_orders(&mut self) -> Result<Vec<String>> {
        let words = "SELECT DISTINCT host FROM remedy_order WHERE state IN ('waiting', 'fetched')";
        let rows = self.connected.ask("looking for orders", |sql| sql.rows(words, &[]))?;
        Ok(rows.iter().map(|row| row.text(0).to_owned()).collect())
    }

    /// Hands out the orders of a host that are to be done: those that wait are fetched by this, those that were fetched before and
    /// have no answer are named again, because the answer to the agent may have been lost. At most so many, the oldest first. None to
    /// another machine than the one that has the name of the host, where that is known.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn fetch_orders(&mut self, host: &str, machine: &MachineId, limit: usize) -> Result<Vec<KeptOrder>> {
        let words = format!(
            "SELECT {COLUMNS} FROM remedy_order WHERE host = $1 AND state IN ('waiting', 'fetched') ORDER BY changed_ns LIMIT $2"
        );
        let values = [host.into(), (limit as u64).into()];
        let there = self.connected.ask("looking for orders", |sql| sql.rows(&words, &values))?;
        if there.is_empty() {
            return Ok(Vec::new());
        }
        self.connected.transaction("fetching orders", false, |sql| {
            if !machines::may_have_orders(sql, host, machine)? {
                return Ok(Vec::new());
            }
            let now_ns = sql.now_ns()?;
            let mut fetched = Vec::new();
            for row in &there {
                let words = format!(
                    "UPDATE remedy_order SET changed_ns = CASE WHEN state = 'fetched' THEN changed_ns ELSE $1 END, state = 'fetched'
                     WHERE token = $2 AND state IN ('waiting', 'fetched') RETURNING {COLUMNS}"
                );
                fetched.extend(sql.rows(&words, &[now_ns.into(), row.text(0).into()])?.iter().map(order));
            }
            Ok(fetched)
        })
    }

    /// Takes the answer of a host's agent, which runs on this machine. Whether the order is its own and had no answer yet, or the same
    /// one. As with the orders, another machine than the one that has the name of the host does not answer for it.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn answer(&mut self, token: &str, host: &str, machine: &MachineId, answer: &str) -> Result<bool> {
        self.connected.transaction("taking an answer in", false, |sql| {
            if !machines::may_have_orders(sql, host, machine)? {
                return Ok(false);
            }
            let now_ns = sql.now_ns()?;
            let words = "UPDATE remedy_order SET state = CASE WHEN state = 'consumed' THEN state ELSE 'answered' END, changed_ns = $1, answer = $2
                WHERE token = $3 AND host = $4
                AND (state = 'fetched' OR (state IN ('answered', 'consumed') AND answer = $2))";
            Ok(sql.run(words, &[now_ns.into(), answer.into(), token.into(), host.into()])? > 0)
        })
    }
}

fn order(row: &Row) -> KeptOrder {
    KeptOrder {
        token: row.text(0).to_owned(),
        host: row.text(1).to_owned(),
        state: OrderState::of(row.text(2)),
        body: row.text(3).to_owned(),
        answer: row.text(4).to_owned(),
        changed_realtime_ns: row.number(5),
    }
}
