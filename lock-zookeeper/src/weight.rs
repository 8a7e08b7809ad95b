//! How much one request may weigh.

/// How many bytes a request has at most. Servers close the connection of one that is larger than their `jute.maxbuffer`: a
/// megabyte by default, and some ten thousand bytes where operators have lowered it.
const REQUEST_MAX: usize = 8 * 1024;

/// What an operation takes beside its path.
const BESIDE: usize = 32;

/// Parts of `items` that fit into a request each, with `most` items at most. A `path` is what one weighs.
pub(crate) fn requests<T>(
    items: Vec<T>,
    most: usize,
    path: impl Fn(&T) -> usize,
) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter().peekable();
    std::iter::from_fn(move || {
        let (mut part, mut weight) = (vec![items.next()?], 0);
        weight += part.first().map_or(0, |first| path(first) + BESIDE);
        while part.len() < most
            && let Some(next) = items.next_if(|next| {
                weight += path(next) + BESIDE;
                weight <= REQUEST_MAX
            })
        {
            part.push(next);
        }
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_by_number_and_by_weight_and_nothing_is_lost() {
        let sizes = |items: Vec<usize>, most| -> Vec<usize> {
            requests(items, most, |item| *item)
                .map(|part| part.len())
                .collect()
        };
        assert_eq!(sizes(vec![10; 7], 3), [3, 3, 1]);
        assert_eq!(sizes(vec![1024 - BESIDE; 20], 500), [8, 8, 4]);
        // One that is too large goes alone, and the server says what it makes of it.
        assert_eq!(sizes(vec![10, 100_000, 10], 500), [1, 1, 1]);
        assert_eq!(sizes(Vec::new(), 500), [0; 0]);
    }
}
