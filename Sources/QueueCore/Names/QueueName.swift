/// The name of a queue: one app of a tenant in one environment, written `tenant/app/environment`.
package struct QueueName: Hashable, Sendable, CustomStringConvertible {
    /// The tenant's name.
    package let tenant: String
    /// The app's bundle ID, which is also the base of its APNs topics.
    package let app: String
    /// The installation of APNs that the queue sends to.
    package let environment: Environment

    /// Creates a name from its three parts without checking them.
    package init(tenant: String, app: String, environment: Environment) {
        self.tenant = tenant
        self.app = app
        self.environment = environment
    }

    /// Reads `tenant/app/environment`; throws a `NameError` that says which part is wrong.
    package init(parsing text: String) throws(NameError) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3 else { throw NameError.queueParts(text) }
        self.init(
            tenant: try Self.tenant(parts[0]),
            app: try Self.app(parts[1]),
            environment: try Self.environment(parts[2]))
    }

    package var description: String { "\(tenant)/\(app)/\(environment.rawValue)" }

    /// Checks a tenant's name: 1 to 63 characters of `a-z 0-9 - _ .`, beginning with a letter or digit.
    package static func tenant(_ text: String) throws(NameError) -> String {
        let allowed = text.utf8.allSatisfy { isLowerOrDigit($0) || $0 == "-" || $0 == "_" || $0 == "." }
        guard allowed, (1...63).contains(text.utf8.count), text.utf8.first.map(isLowerOrDigit) == true else {
            throw NameError.tenant(text)
        }
        return text
    }

    /// Checks a bundle ID: 1 to 155 characters of `A-Z a-z 0-9 - .` (Apple: CFBundleIdentifier), beginning with a
    /// letter or digit, with something between dots.
    package static func app(_ text: String) throws(NameError) -> String {
        let allowed = text.utf8.allSatisfy { isLowerOrDigit($0) || isUpper($0) || $0 == "-" || $0 == "." }
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard allowed, (1...155).contains(text.utf8.count), !parts.contains(where: \.isEmpty),
            text.utf8.first != UInt8(ascii: "-")
        else { throw NameError.app(text) }
        return text
    }

    /// Reads the name of an environment.
    package static func environment(_ text: String) throws(NameError) -> Environment {
        guard let environment = Environment(rawValue: text) else { throw NameError.environment(text) }
        return environment
    }

    /// Whether the character may be in a queue's name.
    package static func mayContain(_ byte: UInt8) -> Bool {
        isLowerOrDigit(byte) || isUpper(byte) || "-_./".utf8.contains(byte)
    }

    private static func isLowerOrDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    private static func isUpper(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
    }
}

/// Why a name was refused.
package enum NameError: Error, Equatable, CustomStringConvertible {
    case queueParts(String)
    case tenant(String)
    case app(String)
    case environment(String)

    package var description: String {
        switch self {
        case .queueParts(let text):
            "queue “\(text)” is not of the form tenant/app/environment, such as acme/com.acme.shop/production"
        case .tenant(let text):
            "tenant “\(text)” is not a name: use 1 to 63 of a-z, 0-9, “-”, “_”, “.”, beginning with a letter or digit"
        case .app(let text):
            "app “\(text)” is not a bundle ID: use A-Z, a-z, 0-9 and “-” with dots between, 155 at most, such as com.acme.shop"
        case .environment(let text):
            "environment “\(text)” is unknown: use production or sandbox"
        }
    }
}
