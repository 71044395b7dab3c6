import QueueCore

/// Why a login may not run workers.
package enum WorkerRightsError: Error, Equatable, CustomStringConvertible {
    /// The login is not a member of `pushq_worker`, and does not have the rights of the schema's owner.
    case notGranted(login: String)
    /// The login is a member, but the role has no rights in this database yet.
    case notMigrated(login: String)

    package var description: String {
        switch self {
        case .notGranted(let login):
            "the login \(login) may not run workers: let an operator run pushq-admin worker grant "
                + "\(ShellWords.quoted(login)), then start the worker again"
        case .notMigrated(let login):
            "the login \(login) is a member of pushq_worker, which has no rights in this database: run pushq-admin migrate, then "
                + "start the worker again"
        }
    }
}

extension PostgresConnection {
    /// Checks whether the login may run workers. Does not check whether the schema's version suits them.
    package func checkWorkerRights() async throws {
        guard let row = try await execute(.workerRights).first else { return }
        let login = row.text("login")
        if !row.bool("is_worker") { throw WorkerRightsError.notGranted(login: login) }
        if !row.bool("has_schema") { throw WorkerRightsError.notMigrated(login: login) }
    }
}

extension Statement {
    /// The rights of the login; no row if there is no schema, or if the login has its owner's rights.
    fileprivate static let workerRights = Statement(
        "worker_rights",
        #"""
        select current_user::text as login, has_schema_privilege(n.oid, 'usage') as has_schema,
               exists (
                 select from pg_roles r where r.rolname = 'pushq_worker' and pg_has_role(r.oid, 'usage')) as is_worker
        from pg_namespace n
        where n.nspname = 'pushq' and not pg_has_role(n.nspowner, 'usage')
        """#)
}
