/// Why a tenant is not moved: what is wrong, and what to do about it.
package enum TenantMoveError: Error, Equatable, CustomStringConvertible {
    case noSchema(String)
    case noRights(String, login: String, owner: String)
    case behindPooler(String)
    case noTenant(String)
    case sameDatabase(String)
    case sameNumber(Int)
    case otherSchema
    case otherTextOrder(String, String)
    case sealed(String, SealError)
    case unknownKey(String, used: [String])
    case otherMover(String, String)
    case otherMove(String, String)
    case otherDirection(String, String)
    case isElsewhere(String, String)
    /// Both the first and the second database serve the tenant.
    case isInBoth(String, String, String)
    /// The same. The move from the first database was undone, and the tenant was suspended there.
    case wasInBoth(String, String, String)
    /// The tenant had arrived, then was removed there, or the database was restored.
    case isNowhere(String, String, hasCopy: Bool)
    case leftOver(String)
    case notUnderWay(String)
    case hasArrived(String, String)
    case held(String, Int, Duration)
    case openTransaction(String, [Int], Duration)
    case tableInUse(String, String, [Int], Duration)
    /// The tenant has moved, but the triggers that noted its changes still exist.
    case triggersStay(String, String, [Int], Duration)
    /// The tenant has moved, but not all its contents at the old place are deleted.
    case contentsStay(String, String, PostgresError)

    package var description: String {
        switch self {
        case .noSchema(let place): "\(place) has no pushq schema; create it with: pushq-admin migrate"
        case .noRights(let place, let login, let owner):
            "\(login) may not move tenants in \(place); connect there as \(owner), who owns the schema"
        case .behindPooler(let place):
            "\(place) is reached through a pooler, where two commands may share a session, and none of them would know of "
                + "the other; give the address of the server itself"
        case .noTenant(let tenant): "there is no tenant \(tenant); list them with: pushq-admin tenant list"
        case .sameDatabase(let name): "--to names \(name), where the tenant already is"
        case .sameNumber(let number):
            "both databases have the number \(number), so their identifiers could collide; give the new database "
                + "another number before it has queues: pushq-admin migrate --database-number"
        case .otherSchema: "the databases have different schemas; migrate both with one version: pushq-admin migrate"
        case .otherTextOrder(let here, let there):
            "the databases sort text differently (\(here); \(there)); create the other one with the same locale"
        case .sealed(let name, let error): "\(name) cannot be moved: \(error)"
        case .unknownKey(let key, let used):
            "nothing in the other database is sealed under master key \(key), so its workers may not have it (they use "
                + "\(used.joined(separator: ", "))); put a key that they have first in PUSHQ_MASTER_KEY_FILE"
        case .otherMover(let tenant, let place):
            "another command is moving \(tenant), and is connected to \(place); wait until it has ended"
        case .otherMove(let tenant, let peer):
            "\(tenant) is already being moved to \(peer); continue that move, or undo it with --abandon. If that "
                + "database is lost for good, add --target-is-lost"
        case .otherDirection(let tenant, let peer):
            "\(tenant) is being moved here from \(peer); finish that move, or undo it there with --abandon. If that database "
                + "is lost for good, run the command here with --abandon --target-is-lost"
        case .isElsewhere(let tenant, let peer): "\(tenant) has moved to \(peer)"
        case .isInBoth(let tenant, let here, let there):
            "\(tenant) is in \(here) and in \(there). If one of the databases was restored to before a move, keep the "
                + "tenant in the other one, and see \"One of several databases\" in docs/restore.md. If these are two "
                + "tenants, create one of them anew under another name: tenants cannot be renamed"
        case .wasInBoth(let tenant, let here, let there):
            "\(tenant) is in \(there), too. So its move was undone in \(here), and it was suspended there: nothing of it "
                + "is sent from \(here). Remove it where it is older: pushq-admin tenant remove \(tenant)"
        case .isNowhere(let tenant, let there, let hasCopy):
            "\(tenant) has moved to \(there), and is not there any more: it was removed, or \(there) was restored to "
                + "before it arrived. Then restore \(there) to a later moment"
                + (hasCopy ? ", or give up what was copied to it with --abandon" : "")
        case .leftOver(let tenant):
            "the other database has begun a move of \(tenant) that this one does not know of; undo it with --abandon"
        case .notUnderWay(let tenant): "no move of \(tenant) between these databases is under way"
        case .hasArrived(let tenant, let peer):
            "\(tenant) has arrived at \(peer) already; run the command again without --abandon to finish the move"
        case .held(let tenant, let count, let patience):
            "workers still hold \(count) jobs of \(tenant), or lists of the feedback service, after \(patience). "
                + "The tenant was not moved and is sent for as before: run the command again"
        case .openTransaction(let tenant, let processes, let patience):
            "transactions that may belong to producers of \(tenant) are still open after \(patience) "
                + "(\(Self.owners(of: processes))). "
                + "The tenant was not moved and is sent for as before: run the command again"
        case .tableInUse(let tenant, let table, let processes, let patience):
            "transactions still have the table pushq.\(table) open after \(patience) "
                + "(\(Self.owners(of: processes))), so the move of \(tenant) cannot continue; run the "
                + "command again when they have ended"
        case .triggersStay(let tenant, let table, let processes, let patience):
            "\(tenant) has moved. Only triggers of the move are left, because transactions still have the table "
                + "pushq.\(table) open after \(patience) "
                + "(\(Self.owners(of: processes))); run the command again when they have ended"
        case .contentsStay(let tenant, let place, let error):
            "\(tenant) has moved, but what it had in \(place) is not all deleted yet: run the command again (\(error))"
        }
    }

    /// Says whose transactions these are. A prepared transaction has no process.
    private static func owners(of processes: [Int]) -> String {
        let numbers = processes.filter { $0 != 0 }.map(String.init).joined(separator: ", ")
        let prepared = "prepared for commit: select gid from pg_prepared_xacts"
        guard processes.contains(0) else { return "processes \(numbers)" }
        return numbers.isEmpty ? prepared : "processes \(numbers), and \(prepared)"
    }
}
