//! Screens on a terminal that we did not write: what it shows after the bytes that a real one would get.

#![allow(clippy::unwrap_used)]

mod made_up;

use made_up::{WORST, kept, sentence};
use proptest::prelude::*;
use ratatui_core::buffer::Buffer;
use surefoot_console::units::percent;
use surefoot_model::{CoreLedger, Headline, Severity};
use surefoot_terminal::{Kept, Key, Look, Pane, Seen, Session, Then, Want, difference, way, whole};

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (40, 12)];
const CORES: [u32; 3] = [2, 64, 512];
/// 2026-11-29T06:00:00Z.
const NOW_NS: i64 = 1_795_932_000_000_000_000;

/// A session, the terminal that it draws to, and what that terminal shows.
struct Sight {
    session: Session,
    kept: Kept,
    terminal: vt100::Parser,
    size: (u16, u16),
    drawn: Option<Buffer>,
    /// What the terminal showed before the screen came.
    before: String,
}

fn parser((width, height): (u16, u16)) -> vt100::Parser {
    vt100::Parser::new(height.try_into().unwrap(), width.try_into().unwrap(), 1_000)
}

impl Sight {
    fn new(kept: Kept, size: (u16, u16)) -> Self {
        let mut terminal = parser(size);
        terminal.process(b"$ make\r\nall is built\r\n$ surefoot watch\r\n");
        let before = terminal.screen().contents();
        terminal.process(&way("xterm", size.1).enter);
        let mut session = Session::new(Look { colours: true });
        session.refresh(&kept, NOW_NS);
        let mut sight = Sight { session, kept, terminal, size, drawn: None, before };
        sight.draw();
        sight
    }

    /// Draws, and holds the terminal to what was drawn.
    fn draw(&mut self) {
        let next = self.session.draw(self.size.0, self.size.1);
        let bytes = match &self.drawn {
            Some(before) if before.area == next.area => difference(before, &next),
            _ => whole(&next),
        };
        self.terminal.process(&bytes);
        let screen = self.terminal.screen();
        for y in 0..self.size.1 {
            for x in 0..self.size.0 {
                let (drawn, shown) = (&next[(x, y)], screen.cell(y, x).unwrap());
                let symbol = if shown.has_contents() { shown.contents() } else { " " };
                // The second half of a wide letter has nothing of its own.
                assert!(shown.is_wide_continuation() || symbol == drawn.symbol(), "{x} {y}: {}", self.text());
            }
            assert!(!screen.row_wrapped(y), "a line overflows: {}", self.text());
        }
        assert!(screen.alternate_screen() && screen.hide_cursor());
        self.drawn = Some(next);
    }

    fn key(&mut self, key: Key) -> Then {
        let then = self.session.key(key, &self.kept, NOW_NS);
        self.draw();
        then
    }

    fn keys(&mut self, text: &str) {
        text.chars().for_each(|letter| _ = self.key(Key::Char(letter)));
    }

    fn rows(&self) -> Vec<String> {
        self.terminal.screen().rows(0, self.size.0).collect()
    }

    fn text(&self) -> String {
        self.rows().join("\n")
    }

    /// Where the pane's rows begin: the line below the names of the columns.
    fn table(&self, first_name: &str, second_name: &str) -> Vec<String> {
        let rows = self.rows();
        let head = rows.iter().position(|row| row.trim_start().starts_with(first_name) && row.contains(second_name));
        rows[head.unwrap_or_else(|| panic!("{}", self.text())) + 1..].to_vec()
    }

    fn end(mut self) {
        self.terminal.process(&way("xterm", self.size.1).leave);
        let screen = self.terminal.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        assert_eq!(screen.contents(), self.before, "what was there before is there again");
        assert_eq!(screen.scrollback_len(), 0, "nothing scrolled");
    }
}

/// The first lines in one, without breaks.
fn top(sight: &Sight, lines: usize) -> String {
    sight.rows()[..lines].iter().map(|row| row.trim().to_owned()).collect::<Vec<_>>().join(" ")
}

fn focus_on(sight: &mut Sight, pane: Pane) {
    while sight.session.focus() != pane {
        sight.key(Key::Tab);
    }
}

#[test]
fn the_headline_is_in_sight_in_every_pane_at_every_size() {
    for size in SIZES {
        for cores in CORES {
            let mut sight = Sight::new(kept(cores, 70), size);
            for pane in Pane::ALL {
                focus_on(&mut sight, pane);
                let whole = format!("warning: {}", sentence(cores));
                let shown = top(&sight, 3);
                let is_whole = shown.starts_with(&whole);
                let is_cut = shown.find('\u{2026}').is_some_and(|at| whole.starts_with(&shown[..at]));
                assert!(is_whole || is_cut, "{size:?} {cores} {pane:?}:\n{}", sight.text());
                assert!(size.0 < 80 || is_whole, "there is room for all of it: {size:?}\n{}", sight.text());
                assert!(sight.rows().iter().any(|row| row.contains(pane.tab())), "{pane:?}:\n{}", sight.text());
            }
            sight.end();
        }
    }
}

fn order(kept: &Kept) -> Vec<CoreLedger> {
    let mut cores = kept.live().cores;
    cores.sort_by_key(|core| std::cmp::Reverse(core.lost_ns()));
    cores
}

#[test]
fn the_worst_core_comes_first_and_what_is_out_of_sight_is_summed_up() {
    for size in SIZES {
        for count in CORES {
            let mut sight = Sight::new(kept(count, 70), size);
            let cores = order(&sight.kept);
            assert_eq!(cores[0].cpu.0, WORST % count, "the data are made so");
            for scrolled in [false, true] {
                if scrolled {
                    sight.key(Key::PageDown);
                }
                let (mut seen, mut rest) = (Vec::new(), None);
                for row in sight.table("core", "lost") {
                    let words: Vec<&str> = row.split_whitespace().collect();
                    match words.as_slice() {
                        [number, "more", share, ..] => {
                            rest = Some((number.parse::<usize>().unwrap(), (*share).to_owned()));
                            break;
                        }
                        [number, share, ..] => match number.parse::<u32>() {
                            Ok(number) => seen.push((number, (*share).to_owned())),
                            Err(_) => break,
                        },
                        _ => break,
                    }
                }
                assert!(!seen.is_empty(), "{size:?} {count}:\n{}", sight.text());
                let first = cores.iter().position(|core| core.cpu.0 == seen[0].0).unwrap();
                assert_eq!(first > 0, scrolled && rest.is_some(), "{size:?} {count}:\n{}", sight.text());
                let number = |share: String| share.parse::<f64>().unwrap();
                let share = |ns, wall_ns| number(percent(ns, wall_ns).replace(" %", ""));
                for (at, (cpu, shown)) in seen.iter().enumerate() {
                    let core = &cores[first + at];
                    assert_eq!(*cpu, core.cpu.0, "in order, none left out");
                    assert_eq!(number(shown.clone()), share(core.lost_ns(), core.wall_ns));
                }
                let hidden = [&cores[..first], &cores[first + seen.len()..]].concat();
                let hidden_count = rest.as_ref().map_or(0, |(count, _)| *count);
                assert_eq!(seen.len() + hidden_count, cores.len(), "{size:?} {count}:\n{}", sight.text());
                assert_eq!(hidden.len(), hidden_count);
                if let Some((_, shown)) = rest {
                    let sum = |of: fn(&CoreLedger) -> u64| hidden.iter().map(of).sum::<u64>();
                    assert_eq!(number(shown), share(sum(CoreLedger::lost_ns), sum(|core| core.wall_ns)));
                }
            }
        }
    }
}

#[test]
fn rows_are_filtered_and_sorted() {
    let mut sight = Sight::new(kept(64, 70), (120, 40));
    focus_on(&mut sight, Pane::Causes);
    sight.keys("/kswapd0");
    let row = &sight.table("cause", "count")[0];
    assert!(row.starts_with("kernel thread kswapd0"), "{}", sight.text());
    assert!(sight.text().contains("1 of 2 with 'kswapd0'"), "{}", sight.text());
    assert!(!sight.table("cause", "count")[1].contains("local_timer"), "{}", sight.text());
    sight.key(Key::Enter);
    assert!(sight.text().contains("only rows with 'kswapd0'"), "{}", sight.text());
    sight.key(Key::Escape);
    assert!(sight.table("cause", "count")[1].contains("local_timer"), "{}", sight.text());
    // By what it took while idle the timer is first.
    sight.keys("s");
    assert!(sight.table("cause", "count")[0].contains("local_timer"), "{}", sight.text());
    assert!(sight.text().contains("while idle\u{2193}"), "{}", sight.text());

    focus_on(&mut sight, Pane::Cores);
    sight.keys("ssss");
    let first: Vec<String> = sight
        .table("core", "lost")
        .iter()
        .take(3)
        .map(|row| row.split_whitespace().next().unwrap().to_owned())
        .collect();
    assert_eq!(first, ["0", "1", "2"], "by number");
}

#[test]
fn the_display_stands_while_it_is_paused_and_the_keys_go_through_time() {
    let mut sight = Sight::new(kept(2, 70), (80, 24));
    let end = |sight: &Sight| sight.session.shown().until_realtime_ns;
    let newest = end(&sight);
    sight.keys("p");
    assert!(sight.text().contains("PAUSED since 06:00:00 UTC"), "{}", sight.text());
    made_up::second(&mut sight.kept, 2, 70);
    sight.session.refresh(&sight.kept, NOW_NS);
    sight.draw();
    assert_eq!(end(&sight), newest, "it stands");
    sight.keys("l");
    assert_eq!(end(&sight), newest + 1_000_000_000, "and goes on");
    assert!(!sight.text().contains("PAUSED"));

    // The newest second, then the one before it, each by itself.
    sight.keys(",,");
    assert_eq!((sight.session.shown().windows, end(&sight)), (1, newest), "{}", sight.text());
    assert!(sight.text().contains("AT "), "{}", sight.text());
    sight.keys(".");
    assert_eq!(end(&sight), newest + 1_000_000_000);
    sight.keys(".");
    assert!(sight.text().contains("newest second"), "{}", sight.text());

    // Ten seconds before now, which is a second after the last one.
    sight.keys("t-10s");
    sight.key(Key::Enter);
    let shown = sight.session.shown();
    let at_ns = NOW_NS - 10_000_000_000;
    assert!((shown.from_realtime_ns..shown.until_realtime_ns).contains(&at_ns), "{}", sight.text());
    // What is said is what was found then.
    assert!(sight.text().contains("AT 05:59:50 UTC"), "{}", sight.text());
    sight.keys("tnonsense");
    sight.key(Key::Enter);
    assert!(sight.text().contains("is not a time"), "{}", sight.text());
    sight.end();
}

#[test]
fn what_is_older_than_the_memory_comes_from_the_history() {
    let mut sight = Sight::new(kept(2, 5), (80, 24));
    sight.keys("t-2h");
    let want = Want::At(NOW_NS - 7_200_000_000_000);
    assert_eq!(sight.key(Key::Enter), Then::Ask(want));
    sight.session.answer(want, None, &sight.kept);
    sight.draw();
    assert!(sight.text().contains("keeps no history"), "{}", sight.text());
    let seen = Seen {
        start_realtime_ns: NOW_NS - 7_200_000_000_000,
        end_realtime_ns: NOW_NS - 7_140_000_000_000,
        cores: kept(2, 1).live().cores,
        ..Seen::default()
    };
    sight.session.answer(want, Some(Ok(Some(seen.clone()))), &sight.kept);
    sight.draw();
    assert!(sight.text().contains("AT 2026-11-29 04:00:00 UTC, from the history"), "{}", sight.text());
    assert_eq!(sight.key(Key::Char('.')), Then::Ask(Want::From(seen.start_realtime_ns + 1)));
    // Beyond the end of the history there is the memory again.
    sight.session.answer(Want::From(seen.start_realtime_ns + 1), Some(Ok(None)), &sight.kept);
    assert_eq!(sight.session.shown().windows, 1);
    assert_eq!(sight.key(Key::Char(',')), Then::Ask(Want::Before(sight.session.shown().from_realtime_ns)));
    sight.session.answer(Want::Before(0), Some(Err("it is damaged".into())), &sight.kept);
    sight.draw();
    assert!(sight.text().contains("cannot be read: it is damaged"), "{}", sight.text());
}

#[test]
fn the_help_explains_each_word_of_the_columns() {
    let mut sight = Sight::new(kept(2, 5), (80, 24));
    sight.keys("?");
    let mut said = String::new();
    for _ in 0..10 {
        said += &sight.text();
        sight.key(Key::PageDown);
    }
    for word in ["lost ", "while idle", "unexplained", "waited", "untraced", "Ctrl-Z", "critical"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    sight.keys("x");
    assert!(sight.text().contains("lost most to"), "{}", sight.text());
    assert_eq!(sight.key(Key::Char('q')), Then::Quit);
    assert_eq!(sight.key(Key::Interrupt), Then::Quit);
}

/// The last line in sight ended in the middle of a sentence, and nothing said that there was more.
#[test]
fn what_of_the_help_is_out_of_sight_is_counted() {
    let mut sight = Sight::new(kept(2, 70), (80, 24));
    sight.key(Key::Char('?'));
    assert!(sight.rows()[23].contains(" more lines below: "), "{}", sight.text());
    let mut seen = 0;
    while sight.rows()[23].contains("more line") {
        sight.key(Key::Char(' '));
        seen += 1;
        assert!(seen < 100, "{}", sight.text());
    }
    assert!(
        seen > 1 && sight.text().contains("the end of the help") && sight.text().contains("are not shown."),
        "{}",
        sight.text()
    );
    sight.key(Key::Home);
    assert!(sight.text().contains("Keys:"), "{}", sight.text());
    sight.key(Key::Char('x'));
    assert!(!sight.text().contains("Keys:"), "{}", sight.text());
    sight.end();
}

#[test]
fn names_of_strangers_command_nothing_and_stay_in_their_columns() {
    let mut kept = kept(2, 3);
    made_up::hostile(&mut kept);
    for size in SIZES.into_iter().chain([(20, 5)]) {
        let mut sight = Sight::new(std::mem::take(&mut kept), size);
        for pane in Pane::ALL {
            focus_on(&mut sight, pane);
            assert!(!sight.text().contains('\u{202e}'), "{pane:?}");
        }
        kept = std::mem::take(&mut sight.kept);
        sight.end();
    }
}

/// As in the demo, whose past comes before anybody looks.
#[test]
fn what_was_found_before_anybody_looked_is_not_known_and_not_none() {
    let mut kept = Kept::default();
    (0..5).for_each(|number| made_up::window(&mut kept, 2, number));
    let mut sight = Sight::new(kept, (80, 24));
    made_up::second(&mut sight.kept, 2, 5);
    sight.session.refresh(&sight.kept, NOW_NS);
    sight.keys("p,,");
    assert!(top(&sight, 1).contains("What was found at this moment is not known here."), "{}", sight.text());
    focus_on(&mut sight, Pane::Findings);
    assert!(!sight.text().contains("No finding"), "{}", sight.text());
}

#[test]
fn before_the_first_window_there_is_no_number() {
    let sight = Sight::new(kept(2, 0), (80, 24));
    assert!(
        sight.text().contains("waiting for the first window") && !sight.text().contains("last 0"),
        "{}",
        sight.text()
    );
}

#[test]
fn without_colours_there_are_none() {
    let colours = |has: bool| {
        let kept = kept(2, 3);
        let mut session = Session::new(Look { colours: has });
        session.refresh(&kept, NOW_NS);
        let screen = session.draw(80, 24);
        screen.content().iter().any(|cell| cell.fg != ratatui_core::style::Color::Reset)
    };
    assert_eq!((colours(true), colours(false)), (true, false));
}

#[test]
fn what_is_missing_and_where_the_page_is_is_in_sight() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let sight = Sight::new(kept(64, 3), size);
        let text = top(&sight, 6);
        for part in ["node17", "eBPF (BTF)", "page http://127.0.0.1:7070/", "Reduced: no counters"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn the_present_is_told_of_where_it_is_worse_than_what_is_shown() {
    let mut sight = Sight::new(kept(2, 3), (80, 24));
    sight.keys("p");
    let worse = made_up::finding(Severity::Critical, "The machine burns.");
    sight.kept.judge(Headline::of(std::slice::from_ref(&worse)), vec![worse], Vec::new());
    sight.session.refresh(&sight.kept, NOW_NS);
    sight.draw();
    assert!(sight.text().contains("the present is critical"), "{}", sight.text());
}

#[test]
fn what_was_lost_stays_in_sight_below_a_worse_finding() {
    for size in SIZES {
        let mut sight = Sight::new(kept(2, 3), size);
        let mut headline = Headline::new(Severity::Critical, "A fan stands still.");
        headline.lost_time = Some("Core 3 lost 61 ms per second.".to_owned());
        sight.kept.judge(headline, Vec::new(), Vec::new());
        sight.session.refresh(&sight.kept, NOW_NS);
        sight.draw();
        let shown = top(&sight, 2);
        assert_eq!(shown, "critical: A fan stands still. Core 3 lost 61 ms per second.", "{size:?}");
        sight.end();
    }
}

fn any_key() -> impl Strategy<Value = Key> {
    let named = [
        Key::Enter,
        Key::Backspace,
        Key::Escape,
        Key::Tab,
        Key::BackTab,
        Key::Up,
        Key::Down,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::Redraw,
        Key::Clear,
    ];
    prop_oneof![
        2 => proptest::sample::select(named.to_vec()),
        3 => proptest::sample::select("?plst,./q19-10mhjkG \u{e4}\u{5b66}".chars().collect::<Vec<_>>()).prop_map(Key::Char),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Key(Key),
    Size(u16, u16),
    Second,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    /// The terminal shows what was drawn after each of some thousand steps: nothing is written outside of the screen.
    #[test]
    fn no_key_and_no_size_breaks_the_screen(
        steps in proptest::collection::vec(
            prop_oneof![
                8 => any_key().prop_map(Step::Key),
                1 => (1u16..130, 1u16..45).prop_map(|(width, height)| Step::Size(width, height)),
                1 => Just(Step::Second),
            ],
            200,
        ),
        cores in proptest::sample::select(vec![1u32, 3, 40]),
    ) {
        let mut kept = kept(cores, 4);
        made_up::hostile(&mut kept);
        let mut sight = Sight::new(kept, (80, 24));
        for step in steps {
            match step {
                Step::Key(key) => {
                    if let Then::Ask(want) = sight.key(key) {
                        let seen = Seen { end_realtime_ns: 1, ..Seen::default() };
                        let answer = match want {
                            Want::At(_) => None,
                            Want::Before(_) => Some(Ok(Some(seen))),
                            Want::From(_) => Some(Ok(None)),
                        };
                        sight.session.answer(want, answer, &sight.kept);
                    }
                }
                Step::Size(width, height) => {
                    sight.size = (width, height);
                    sight.terminal = parser(sight.size);
                    sight.terminal.process(&way("xterm", height).enter);
                    sight.drawn = None;
                }
                Step::Second => {
                    let number = sight.kept.numbers().end;
                    made_up::second(&mut sight.kept, cores, number);
                    sight.session.refresh(&sight.kept, NOW_NS);
                }
            }
            sight.draw();
        }
    }
}
