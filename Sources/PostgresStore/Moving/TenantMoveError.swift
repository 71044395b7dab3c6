/// Why a tenant is not moved: what is wrong, and what to do.
package enum TenantMoveError: Error, Equatable, CustomStringConvertible {
    case noSchema(String)
    case noRights(String, login: String, owner: String)
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
    case leftOver(String)
    case notUnderWay(String)
    case hasArrived(String, String)
    case held(String, Int, Duration)
    case openTransaction(String, [Int], Duration)
    case tableInUse(String, String, [Int], Duration)

    package var description: String {
        switch self {
        case .noSchema(let place): "\(place) has no pushq schema; create it with: pushq-admin migrate"
        case .noRights(let place, let login, let owner):
            "\(login) may not move tenants in \(place); connect there as \(owner), who owns the schema"
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
            "\(tenant) is already being moved to \(peer); continue that move, or undo it with --abandon"
        case .otherDirection(let tenant, let peer):
            "\(tenant) is being moved here from \(peer); finish that move, or undo it there with --abandon"
        case .isElsewhere(let tenant, let peer): "\(tenant) has moved to \(peer)"
        case .leftOver(let tenant):
            "the other database has begun a move of \(tenant) that this one does not know of; undo it with --abandon"
        case .notUnderWay(let tenant): "no move of \(tenant) between these databases is under way"
        case .hasArrived(let tenant, let peer):
            "\(tenant) has arrived at \(peer) already; run the command again without --abandon to finish the move"
        case .held(let tenant, let count, let patience):
            "workers still hold \(count) jobs of \(tenant), or lists of the feedback service, after \(patience). "
                + "The tenant was not moved and is sent for as before: run the command again"
        case .openTransaction(let tenant, let processes, let patience):
            "transactions that may belong to producers of \(tenant) are still open after \(patience) (processes "
                + "\(processes.map(String.init).joined(separator: ", "))). "
                + "The tenant was not moved and is sent for as before: run the command again"
        case .tableInUse(let tenant, let table, let processes, let patience):
            "transactions still have the table pushq.\(table) open after \(patience) (processes "
                + "\(processes.map(String.init).joined(separator: ", "))), so the move of \(tenant) cannot continue; run the "
                + "command again when they have ended"
        }
    }
}
