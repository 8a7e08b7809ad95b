//! The shop's books: the stock and the orders, read and written separately, as in a database.

use std::collections::{HashMap, HashSet};

/// The number of a buyer.
pub(crate) type User = u32;

/// Stock and orders of the one voucher.
#[derive(Debug)]
pub(crate) struct Shop {
    stock_before: u32,
    stock: u32,
    orders: Vec<User>,
    looks: HashMap<User, u32>,
}

impl Shop {
    pub(crate) fn with_stock(stock: u32) -> Self {
        Self {
            stock_before: stock,
            stock,
            orders: Vec::new(),
            looks: HashMap::new(),
        }
    }

    pub(crate) fn stock(&self) -> u32 {
        self.stock
    }

    pub(crate) fn write_stock(&mut self, stock: u32) {
        self.stock = stock;
    }

    /// Decrements the stock unless it is zero, in a single step; returns true if it was positive.
    pub(crate) fn decrement_if_positive(&mut self) -> bool {
        let positive = self.stock > 0;
        self.stock = self.stock.saturating_sub(1);
        positive
    }

    /// Returns true if `user` has an order, and counts the look.
    pub(crate) fn has_order(&mut self, user: User) -> bool {
        *self.looks.entry(user).or_default() += 1;
        self.orders.contains(&user)
    }

    pub(crate) fn write_order(&mut self, user: User) {
        self.orders.push(user);
    }

    /// Returns the number of looks for an order of `user`.
    pub(crate) fn looks_for(&self, user: User) -> u32 {
        self.looks.get(&user).copied().unwrap_or_default()
    }

    /// Returns the number of orders of `user`.
    pub(crate) fn orders_of(&self, user: User) -> usize {
        self.orders.iter().filter(|owner| **owner == user).count()
    }

    /// Returns the number of orders.
    pub(crate) fn sold(&self) -> u32 {
        count(self.orders.len())
    }

    /// Returns the number of orders beyond the stock.
    pub(crate) fn oversold(&self) -> u32 {
        self.sold().saturating_sub(self.stock_before)
    }

    /// Returns the number of orders by which the stock did not decrease.
    pub(crate) fn lost_updates(&self) -> u32 {
        let decrease = self.stock_before.saturating_sub(self.stock);
        self.sold().saturating_sub(decrease)
    }

    /// Returns the number of orders beyond the first of each user.
    pub(crate) fn double_orders(&self) -> u32 {
        let users: HashSet<User> = self.orders.iter().copied().collect();
        self.sold() - count(users.len())
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_stock_is_a_lost_update_and_sells_too_much() {
        let mut shop = Shop::with_stock(2);
        let (first, second) = (shop.stock(), shop.stock());
        for (user, stock) in [(1, first), (2, second)] {
            shop.write_stock(stock - 1);
            shop.write_order(user);
        }
        assert_eq!((shop.lost_updates(), shop.oversold()), (1, 0));
        shop.write_stock(0);
        shop.write_order(1);
        assert_eq!(
            (shop.sold(), shop.lost_updates(), shop.oversold()),
            (3, 1, 1)
        );
        assert_eq!(shop.double_orders(), 1);
    }

    #[test]
    fn the_conditional_decrement_stops_at_zero() {
        let mut shop = Shop::with_stock(1);
        assert!(shop.decrement_if_positive());
        assert!(!shop.decrement_if_positive());
        assert_eq!(shop.stock(), 0);
    }
}
