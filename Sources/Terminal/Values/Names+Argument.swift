package import QueueCore

extension QueueName: ArgumentValue {
    package static var placeholder: String { "QUEUE" }
    package var shown: String { description }

    package static func parse(_ text: String) throws(InvalidValue) -> QueueName {
        do throws(NameError) {
            return try QueueName(parsing: text)
        } catch {
            throw InvalidValue(Messages.notAQueue(error.part))
        }
    }
}

/// A tenant's name on a command line.
package struct TenantName: ArgumentValue, Equatable, Sendable {
    package let text: String

    package static var placeholder: String { "TENANT" }
    package var shown: String { text }

    package static func parse(_ text: String) throws(InvalidValue) -> TenantName {
        guard (try? QueueName.tenant(text)) != nil else { throw InvalidValue(Messages.notATenant) }
        return TenantName(text: text)
    }
}

/// A bundle ID on a command line.
package struct BundleID: ArgumentValue, Equatable, Sendable {
    package let text: String

    package static var placeholder: String { "BUNDLE-ID" }
    package var shown: String { text }

    package static func parse(_ text: String) throws(InvalidValue) -> BundleID {
        guard (try? QueueName.app(text)) != nil else { throw InvalidValue(Messages.notABundleID) }
        return BundleID(text: text)
    }
}

extension DeviceToken: ArgumentValue {
    package static var placeholder: String { "HEX" }
    package static var isConfidential: Bool { true }
    package var shown: String { redacted }

    package static func parse(_ text: String) throws(InvalidValue) -> DeviceToken {
        do throws(DeviceTokenError) {
            return try DeviceToken(hex: text)
        } catch {
            throw InvalidValue("does not hold a token: \(error.description)")
        }
    }
}

extension APNsID: ArgumentValue {
    package static var placeholder: String { "ID" }
    package var shown: String { description }

    package static func parse(_ text: String) throws(InvalidValue) -> APNsID {
        guard let id = APNsID(text) else { throw InvalidValue(Messages.notAnAPNsID) }
        return id
    }
}

extension ChannelID: ArgumentValue {
    package static var placeholder: String { "CHANNEL" }
    package var shown: String { text }

    package static func parse(_ text: String) throws(InvalidValue) -> ChannelID {
        guard let channel = try? ChannelID(text) else { throw InvalidValue(Messages.notAChannel) }
        return channel
    }
}

extension ChannelPolicy: ArgumentValue {
    package static var placeholder: String { allCases.map(\.shown).joined(separator: "|") }
    package var shown: String { "\(self)" }

    package static func parse(_ text: String) throws(InvalidValue) -> ChannelPolicy {
        guard let policy = allCases.first(where: { $0.shown == text }) else {
            throw InvalidValue(Messages.notOne(of: allCases.map(\.shown)))
        }
        return policy
    }
}

extension Environment: ArgumentChoice {}
extension PushType: ArgumentChoice {}

extension NameError {
    /// The part of a queue's name that is wrong.
    fileprivate var part: String {
        switch self {
        case .queueParts: "it has not three parts"
        case .tenant: "the tenant's name is not one"
        case .app: "the app is not a bundle ID"
        case .environment: "the environment is neither production nor sandbox"
        }
    }
}

extension TraceParent: ArgumentValue {
    package static var placeholder: String { "TEXT" }
    package var shown: String { text }

    package static func parse(_ text: String) throws(InvalidValue) -> TraceParent {
        do throws(TraceParentError) {
            return try TraceParent(text)
        } catch {
            throw InvalidValue(error.description)
        }
    }
}
