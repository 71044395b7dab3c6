import PostgresStore
import Terminal

struct RouterCommand: Command {
    static let name = "router"
    static let users = CommandUsers.operators(because: "it shows where all tenants are, and who may act for them")
    static let summary = "Prints SQL that makes a router: one address for the producers of several databases."
    static let discussion = """
        A router is a database with PL/Proxy, in which producers call the functions of docs/sql-api.md. It forwards \
        each call to the database of the queue's tenant, under the caller's name. Run the output of this command as a \
        superuser in a database of its own (… | psql -X -q -v ON_ERROR_STOP=1 router). Run it again after a tenant was \
        created or moved, a login was granted or revoked, or pushq was upgraded. It changes only what differs. \
        docs/scaling.md says what a router costs.

        If a database cannot be asked, or a tenant is in two of them, the command says so and the exit code is 1. \
        The router keeps what it knew of that database or tenant.
        """
    static let examples = [
        "router --databases /etc/pushq/databases",
        "router --databases /etc/pushq/databases --passfile /etc/postgresql/pushq-router.pgpass",
    ]

    @Option(
        "The file, on the router's machine, with the passwords of producers' logins: libpq's password file. By default that of the router's server.",
        "FILE")
    var passfile: String?
    var databases = DatabaseList()

    func run(_ console: Console) async throws {
        var parts: [(part: RouterPart, connection: String)] = []
        var names: [String] = []
        var known: [DatabaseIdentity: DatabaseAddress] = [:]
        var silent: [String] = []
        let began = ContinuousClock.now
        let addresses = try databases.addresses()
        for address in addresses {
            do {
                let (part, identity) = try await DatabaseOptions.session(at: address) {
                    (try await $0.routerPart(), try await $0.databaseIdentity())
                }
                if let first = known.updateValue(address, forKey: identity) {
                    throw Failure(DatabaseList.namedTwice(address, as: first))
                }
                // PL/Proxy stays with the first host that accepts its connection, even if that never answers.
                let inOrder = address.startingWith(host: part.host)
                parts.append((part, try inOrder.connectionForOthers(as: "pushq-router", passfile: passfile)))
                names.append(address.place)
            } catch PostgresError.badAddress(let reason) {
                throw Failure("\(address.place): \(reason)")
            } catch let error as PostgresError {
                silent.append("cannot be reached: \(address.place): \(error)")
            } catch let error as MissingRights where addresses.count > 1 {
                silent.append("cannot be asked: \(address.place): \(error.description(for: Self.users))")
            }
        }
        for text in silent { console.remark(text) }
        guard !parts.isEmpty else { throw Unsuccessful() }
        try check(parts.map(\.part), names)
        let doubled = doubled(in: parts.map(\.part), names)
        for (tenant, places) in doubled.sorted(by: { $0.key < $1.key }) {
            console.remark("\(tenant) is in \(places): the router keeps its place; see pushq-admin tenant where")
        }
        let script = RouterScript(
            parts, isComplete: silent.isEmpty, doubled: Set(doubled.keys), age: ContinuousClock.now - began
        ).text
        // A program reads the script, so that it is printed as it is.
        if console.speaksJSON {
            console.show("", json: ["script": .string(script)])
        } else {
            console.print(script)
        }
        guard silent.isEmpty, doubled.isEmpty else { throw Unsuccessful() }
    }

    /// The tenants that are in several databases, with the names of these.
    private func doubled(in parts: [RouterPart], _ names: [String]) -> [String: String] {
        var places: [String: [String]] = [:]
        for (part, name) in zip(parts, names) {
            for tenant in part.logins.keys { places[tenant, default: []].append(name) }
        }
        return places.filter { $0.value.count > 1 }.mapValues { $0.joined(separator: " and in ") }
    }

    /// Throws if the databases do not belong together.
    private func check(_ parts: [RouterPart], _ names: [String]) throws {
        for (index, (part, name)) in zip(parts, names).enumerated() {
            for (other, otherName) in zip(parts, names).prefix(index) {
                guard part.number != other.number else {
                    throw Failure(
                        "\(otherName) and \(name) both have the number \(part.number): see pushq-admin migrate --help")
                }
                guard part.hasFunctions(of: other) else {
                    throw Failure("\(otherName) and \(name) have different functions: run pushq-admin migrate on both")
                }
            }
        }
    }
}
