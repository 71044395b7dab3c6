import PostgresStore
import QueueCore

/// The translations of the messages of held jobs, and how many more a claim may bring.
///
/// The numbers of leases and of recipients bound what other messages take. But a message may have 262,144 bytes in all
/// its languages: hundreds of these would fill the memory. The jobs that one claim brings of a message share its
/// translations, which are held until the last of these jobs has ended.
struct HeldTranslations {
    /// The maximum number of bytes of one claim. Everything else waits while PostgreSQL reads them and this worker
    /// parses them.
    static let maximumClaimed = 4 << 20

    /// A message of which jobs are held.
    private struct Holding {
        let tenantID: Int32
        var jobs = 0
    }

    private var holdings: [ObjectIdentifier: Holding] = [:]
    private var bytesOfTenants: [Int32: Int] = [:]
    /// The bytes of all translations.
    private(set) var bytes = 0

    /// Notes that a job of a message is held.
    mutating func add(_ message: PersonalMessage, of tenantID: Int32) {
        guard message.translationBytes > 0 else { return }
        let id = ObjectIdentifier(message)
        if holdings[id] == nil {
            holdings[id] = Holding(tenantID: tenantID)
            count(message.translationBytes, of: tenantID)
        }
        holdings[id]?.jobs += 1
    }

    /// Notes that a job of a message is no longer held.
    mutating func remove(_ message: PersonalMessage) {
        let id = ObjectIdentifier(message)
        guard message.translationBytes > 0, var holding = holdings[id] else { return }
        holding.jobs -= 1
        holdings[id] = holding.jobs > 0 ? holding : nil
        if holding.jobs == 0 { count(-message.translationBytes, of: holding.tenantID) }
    }

    private mutating func count(_ change: Int, of tenantID: Int32) {
        bytes += change
        let sum = bytesOfTenants[tenantID, default: 0] + change
        bytesOfTenants[tenantID] = sum > 0 ? sum : nil
    }

    /// The number of bytes that the next claim may bring.
    /// - Parameter limit: the maximum number of bytes held, ``EngineSettings/maximumTranslations``.
    func room(within limit: Int) -> Int { max(0, min(Self.maximumClaimed, limit - bytes)) }

    /// The number of bytes that the next claim may bring of one tenant: its part of what is free. It is counted in the
    /// longest messages, so a tenant that holds nothing may have any message while there is room for one.
    func room(of tenantID: Int32, within limit: Int) -> Int {
        let longest = CampaignMessage.maximumBytes
        let taken = (bytesOfTenants[tenantID, default: 0] + longest - 1) / longest
        let more = SharedRoom.more(having: taken, free: (limit - bytes) / longest, weight: 1, heaviest: 1)
        return min(room(within: limit), more * longest)
    }
}
