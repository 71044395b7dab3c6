import Cryptography
import OperatorViews
import PostgresStore
import QueueCore
import Terminal
import Transport

struct DashboardCommand: Command {
    static let name = "dashboard"
    static let users = CommandUsers.readers
    static let summary = "Serves a web page that shows queues, campaigns and workers, and can change them."
    static let discussion = """
        Open the address that it prints in a browser, and sign in with one of its two tokens. The read token shows; \
        the change token also changes. The tokens are printed once, or read from files. The page loads nothing from \
        other servers. It shows and changes what the database login may see and change. The audit records the name \
        that somebody signed in with.

        By default it listens on the loopback interface only, without TLS. To reach it from another machine, use an \
        SSH tunnel, or put a TLS proxy in front of it and pass the host name that browsers use with --allow-host.
        """
    static let examples = [
        "dashboard", "dashboard --listen 9465 --read-token-file read.token --change-token-file change.token",
        "dashboard --listen 0.0.0.0:9465 --allow-host push.example.com",
    ]

    @Option("Where to listen: a port of the loopback interface, HOST:PORT, or unix:PATH.")
    var listen: ListenAddress = .tcp(host: "127.0.0.1", port: 9465)
    @Option("A host name that browsers use for this server, besides those of the loopback interface.", "HOST")
    var allowHost: [String]
    @Option("A file with the read token.", "FILE") var readTokenFile: InputFile?
    @Option("A file with the change token.", "FILE") var changeTokenFile: InputFile?
    var database = DatabaseOptions()

    /// The minimum length of a chosen token, so that it cannot be guessed.
    private static let shortestToken = 20

    func run(_ console: Console) async throws {
        CoreDumps.forbid()
        if let host = allowHost.first(where: { !Self.isName($0) }) {
            throw UsageError(
                "--allow-host \(host): give the name alone, without https:// and port, and an IPv6 address in brackets")
        }
        let (read, change) = (try token(readTokenFile, console), try token(changeTokenFile, console))
        guard read.text != change.text else { throw UsageError("the read token and the change token must differ") }
        var hosts: Set = ["localhost", "127.0.0.1", "[::1]"]
        hosts.formUnion(allowHost)
        // An operator who names an address of the machine wants to open the page there.
        if case .tcp(let host, _) = listen { hosts.insert(host.contains(":") ? "[\(host)]" : host) }
        let access = DashboardAccess(readToken: read.text, changeToken: change.text, hosts: hosts)
        let listen = listen
        try await database.lastingSession { store, loop in
            let connection = try await store.current()
            // A login without rights gets an error now, before anyone opens a page.
            _ = try await connection.queueLoads(of: nil, limit: 1)
            let standing = try await connection.loginRights()
            let changing = try database.lastingConnection(on: loop)
            defer { changing.close() }
            let dashboard = Dashboard(
                reading: store, changing: changing, on: loop, login: standing?.login ?? "",
                isOperator: standing?.kind == .operator, access: access)
            let signals = Signals.stream()
            let address = try dashboard.start(at: listen)
            defer { dashboard.stop() }
            Self.tell(Self.page(at: address), read, change, on: console)
            for await _ in signals { break }
        }
    }

    /// Whether a browser's `Host` could be this, whatever port follows it there. Anything else would never match.
    private static func isName(_ host: String) -> Bool {
        let isInBrackets = host.hasPrefix("[") && host.hasSuffix("]")
        return !host.contains("/") && (isInBrackets || !host.contains(":"))
    }

    /// A token, and whether the command has to print it.
    private struct Token: Sendable {
        let text: String
        let isNew: Bool
    }

    private func token(_ file: InputFile?, _ console: Console) throws -> Token {
        guard let file else {
            let digits = try SecureRandom.bytes(24).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
            return Token(text: digits.joined(), isNew: true)
        }
        if let warning = SecretFile(file.path).warning { console.warn(warning) }
        let text = String(decoding: try file.contents(), as: UTF8.self).trimmed()
        guard text.utf8.count >= Self.shortestToken else {
            throw Failure(
                "the token in \(file.path) is shorter than \(Self.shortestToken) characters; make one with: "
                    + "openssl rand -hex 24")
        }
        return Token(text: text, isNew: false)
    }

    /// The URL of the page for a browser on this machine, with a host name that the page is served for.
    private static func page(at address: ListenAddress) -> String {
        guard case .tcp(let host, let port) = address else { return "\(address)" }
        let near = ["0.0.0.0": "127.0.0.1", "::": "::1"][host] ?? host
        return "http://\(ListenAddress.tcp(host: near, port: port))/"
    }

    private static func tell(_ page: String, _ read: Token, _ change: Token, on console: Console) {
        var facts: [(name: String, value: Cell)] = [("address", .text(page))]
        if read.isNew { facts.append(("token_to_read", .text(read.text))) }
        if change.isNew { facts.append(("token_to_change", .text(change.text))) }
        console.show(facts)
    }
}
