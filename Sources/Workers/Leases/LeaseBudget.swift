/// How many leases a worker may hold, so that it can renew all of them in time at the present cost of a renewal.
///
/// Jobs with one recipient are expensive: 100,000 pushes can be 200 leases or 100,000.
struct LeaseBudget {
    /// The part of the time between two renewals of a lease that renewing all leases may take. The rest is for ending
    /// jobs, and for moments in which PostgreSQL is slower than it was.
    private static let share = 0.2
    /// A statement that renews fewer leases than this measures the network more than the cost of a renewal. So it may
    /// lower the cost, but never raise it.
    private static let minimumMeasured = 200
    /// The number of leases that may always be held, however slow renewals are: one statement renews them.
    private static let minimum = 200

    /// The time between two renewals of a lease.
    let interval: Duration
    /// The limit while renewals are cheap.
    let maximum: Int
    /// The recent cost of renewing one lease.
    private(set) var cost = Duration.zero

    init(interval: Duration, maximum: Int) {
        self.interval = interval
        self.maximum = maximum
    }

    /// Notes that one statement renewed `count` leases, and how long that took. A single slow statement counts
    /// for half, because the network may have been the cause.
    mutating func noteRenewal(of count: Int, took time: Duration) {
        let latest = time / count
        guard count >= Self.minimumMeasured || latest < cost else { return }
        cost = cost == .zero ? latest : (cost + latest) / 2
    }

    /// The number of leases that may be held.
    var limit: Int {
        guard cost > .zero else { return maximum }
        return max(Self.minimum, min(maximum, Int(interval * Self.share / cost)))
    }

    /// The number of `held` leases to give back. None while they are only a little over the limit, since giving back
    /// costs as much as several renewals.
    func excess(of held: Int) -> Int { held > limit + limit / 4 ? held - limit : 0 }
}
