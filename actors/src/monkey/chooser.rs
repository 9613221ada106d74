//! Whom the monkey strikes next. Pure: the same seed and the same crowds give the same choices.

use super::pattern::Pattern;
use crate::system::directory::Path;
use std::collections::HashMap;

/// So often, in strikes, one goes to the kind that was struck least. Services stand alone among
/// hundreds of proxies and probers, and by chance alone some would be spared in a short run.
const FAIR: u64 = 16;

/// Chooses one actor after another.
pub struct Chooser {
    dice: Dice,
    pattern: Pattern,
    spared: Vec<Path>,
    strikes: u64,
    struck: HashMap<&'static str, u64>,
}

impl Chooser {
    /// One that chooses among those whom `pattern` matches and who are not `spared`.
    #[must_use]
    pub fn new(seed: u64, pattern: Pattern, spared: Vec<Path>) -> Self {
        Self {
            dice: Dice(seed),
            pattern,
            spared,
            strikes: 0,
            struck: HashMap::new(),
        }
    }

    /// One of `who`, sorted by path; none where nobody may be struck.
    pub fn choose<'w>(
        &mut self,
        who: &'w [(Path, &'static str)],
    ) -> Option<&'w (Path, &'static str)> {
        let mut field: Vec<_> = who
            .iter()
            .filter(|(path, kind)| self.may(path, kind))
            .collect();
        self.strikes += 1;
        if self.strikes.is_multiple_of(FAIR) {
            let times = |kind: &str| self.struck.get(kind).copied().unwrap_or_default();
            // Of several that were struck equally often, the first by name.
            let least = field.iter().map(|(_, kind)| (times(kind), *kind)).min();
            field.retain(|(_, kind)| least.is_some_and(|(_, least)| *kind == least));
        }
        let chosen = *field.get(self.dice.below(field.len())?)?;
        *self.struck.entry(chosen.1).or_default() += 1;
        Some(chosen)
    }

    fn may(&self, path: &Path, kind: &str) -> bool {
        kind != "root" && !self.spared.contains(path) && self.pattern.matches(path, kind)
    }
}

/// `SplitMix64`: written out, since a run must be the same with next year's libraries, which none of
/// the generators of `rand` promises.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, each as likely as another but for a share of `bound` in 2^64.
    fn below(&mut self, bound: usize) -> Option<usize> {
        let drawn = self.next();
        let bound = u64::try_from(bound).ok()?;
        usize::try_from(drawn.checked_rem(bound)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(proxies: usize) -> Vec<(Path, &'static str)> {
        let services = [
            "api",
            "events",
            "fleet",
            "leases",
            "ops/admin",
            "ops/monkey",
            "root",
        ];
        let mut who: Vec<(Path, _)> = services
            .map(|path| (Path::from(path), path.split('/').next().unwrap_or(path)))
            .into();
        who.extend((0..proxies).map(|n| (Path::from(format!("proxy/ns/{n:04}")), "proxy")));
        who
    }

    fn chooser(seed: u64, pattern: &str) -> Chooser {
        let spared = vec!["ops/admin".into(), "ops/monkey".into()];
        Chooser::new(seed, pattern.parse().expect("a pattern"), spared)
    }

    fn choices(chooser: &mut Chooser, crowds: &[Vec<(Path, &'static str)>]) -> Vec<String> {
        crowds
            .iter()
            .filter_map(|who| Some(chooser.choose(who)?.0.to_string()))
            .collect()
    }

    #[test]
    fn the_same_seed_and_the_same_crowds_give_the_same_choices() {
        // People come and go, as they do while a monkey is loose.
        let crowds: Vec<_> = (0..500).map(|at| crowd(100 + at % 37)).collect();
        let of = |seed| choices(&mut chooser(seed, "*"), &crowds);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        assert_eq!(of(7).len(), crowds.len());
    }

    #[test]
    fn the_dice_are_those_of_every_other_year() {
        // The first numbers of the reference implementation for this seed.
        let mut dice = Dice(1_234_567);
        let drawn = [dice.next(), dice.next(), dice.next()];
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_kind_is_struck_soon_even_among_many_of_another() {
        let crowds = vec![crowd(5_000); 16 * 8];
        let struck = choices(&mut chooser(1, "*"), &crowds);
        for service in ["api", "events", "fleet", "leases"] {
            assert!(struck.iter().any(|path| path == service), "{service}");
        }
        let proxies = struck.iter().filter(|path| path.starts_with("proxy/"));
        assert!(proxies.count() > struck.len() * 9 / 10);
    }

    #[test]
    fn the_root_and_the_spared_are_never_struck() {
        let crowds = vec![crowd(0); 400];
        let struck = choices(&mut chooser(3, "*"), &crowds);
        for spared in ["root", "ops/admin", "ops/monkey"] {
            assert!(!struck.iter().any(|path| path == spared), "{spared}");
        }
        assert_eq!(struck.len(), 400);
        let nobody = choices(&mut chooser(3, "root"), &crowds);
        assert!(nobody.is_empty());
    }

    #[test]
    fn only_whom_the_pattern_matches_is_struck() {
        let crowds = vec![crowd(50); 200];
        let struck = choices(&mut chooser(3, "proxy/ns/000*"), &crowds);
        assert!(struck.len() == 200 && struck.iter().all(|path| path.starts_with("proxy/ns/000")));
    }
}
