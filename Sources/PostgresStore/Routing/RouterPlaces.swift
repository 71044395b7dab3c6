extension Statement {
    fileprivate static let isRouter = Statement(
        "is_router", "select to_regclass('pushq_router.place') is not null as is_router")

    /// Tells a router where a tenant is. The router must know the database already. It notes the time also where it
    /// knew the place: a `pushq-admin router` that asked the databases before the move may still be running.
    fileprivate static let tellRouter = Statement(
        "tell_router",
        #"""
        with told as (
          update pushq_router.place p
          set database = $number, told_at = now()
          where p.tenant = $tenant
            and exists (select from pushq_router.database d where d.number = $number))
        select exists (select from pushq_router.database d where d.number = $number) as is_known
        """#)
}

/// What commands ask a router's database (``RouterScript``), and what they tell it.
extension PostgresConnection {
    /// Returns whether this database is a router.
    package func isRouter() async throws(PostgresError) -> Bool {
        try await execute(.isRouter).one().bool("is_router")
    }

    /// Tells the router that a tenant is in another database. Calls that begin later go there, by the same logins.
    /// Returns whether the router knows the database; if not, nothing changes.
    /// - Parameter number: the number of the database.
    package func tellRouter(that tenant: String, isIn number: Int) async throws(PostgresError) -> Bool {
        try await execute(.tellRouter, ["tenant": .text(tenant), "number": .int4(Int32(number))]).one().bool("is_known")
    }
}
