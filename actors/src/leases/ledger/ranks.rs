//! Numbers that order the ids: comparing two of them looks at no text. A new id gets one between its neighbours'.

/// Room left after the last and before the first rank, for ids that come in order.
const STRIDE: u64 = 1 << 40;
/// Room taken between two: small, so that many ids coming in order fit between two others.
const STEP: u64 = 1 << 20;
const MIDDLE: u64 = 1 << 63;

/// A rank above `below` and below `above`; `None` when there is no room.
pub(super) fn between(below: Option<u64>, above: Option<u64>) -> Option<u64> {
    match (below, above) {
        (None, None) => Some(MIDDLE),
        (Some(below), None) => below.checked_add(STRIDE),
        (None, Some(above)) => above.checked_sub(STRIDE),
        (Some(below), Some(above)) => match above.saturating_sub(below) / 2 {
            0 => None,
            half => Some(below + half.min(STEP)),
        },
    }
}

/// `count` ranks, ascending, far apart and about the middle.
pub(super) fn spread(count: u64) -> impl Iterator<Item = u64> {
    let stride = STRIDE.min(u64::MAX / (count + 2));
    let first = MIDDLE - stride * (count / 2);
    (0..count).map(move |n| first + stride * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_lies_between_its_neighbours_or_there_is_none() {
        assert_eq!(between(Some(4), Some(6)), Some(5));
        assert_eq!(between(Some(4), Some(5)), None);
        assert_eq!(between(Some(u64::MAX - 1), None), None);
        assert_eq!(between(None, Some(1)), None);
    }

    #[test]
    fn spread_ranks_ascend_and_leave_room() {
        for count in [1, 2, 3, 1000, 1 << 30] {
            let ranks: Vec<u64> = spread(count).take(1000).collect();
            assert!(
                ranks
                    .windows(2)
                    .all(|two| between(Some(two[0]), Some(two[1])).is_some())
            );
        }
    }
}
