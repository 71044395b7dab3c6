import Testing

@testable import APNs
@testable import Workers

@Suite struct `That APNs is out of reach` {
    private final class Gateway {}

    /// A class, so that `#expect` can contain calls that change the notices.
    private final class Dialogue {
        var notices = DowntimeNotices()

        func note(_ state: GatewayState, of id: ObjectIdentifier, isOutage: Bool) -> DowntimeNotices.News? {
            notices.note(state, of: id, isOutage: isOutage)
        }

        func forget(_ id: ObjectIdentifier) { notices.forget(id) }
    }

    private let gateway = Gateway()
    private var id: ObjectIdentifier { ObjectIdentifier(gateway) }
    private let unreachable = GatewayState.unreachable(Downtime(since: .now, error: "refused", nextAttempt: .now))

    @Test func `is said once, and once that it is back`() {
        let notices = Dialogue()
        #expect(notices.note(.open, of: id, isOutage: false) == nil)
        #expect(notices.note(unreachable, of: id, isOutage: false) == .lost(error: "refused"))
        #expect(notices.note(.connecting, of: id, isOutage: false) == nil)
        #expect(notices.note(unreachable, of: id, isOutage: false) == nil)
        #expect(notices.note(.open, of: id, isOutage: false) == .back)
        #expect(notices.note(.open, of: id, isOutage: false) == nil)
    }

    @Test func `is said again each time that it was tried in vain, with the reason of that time`() {
        let notices = Dialogue()
        let begin = ContinuousClock.now
        let failed = { (attempt: Int) in
            GatewayState.unreachable(
                Downtime(since: begin, error: "error \(attempt)", nextAttempt: begin + .seconds(attempt)))
        }
        #expect(notices.note(failed(1), of: id, isOutage: false) == .lost(error: "error 1"))
        #expect(notices.note(failed(1), of: id, isOutage: false) == nil)
        #expect(notices.note(failed(2), of: id, isOutage: false) == .failedAgain(error: "error 2"))
        #expect(notices.note(.connecting, of: id, isOutage: false) == nil)
        #expect(notices.note(failed(3), of: id, isOutage: false) == .failedAgain(error: "error 3"))
        #expect(notices.note(.open, of: id, isOutage: false) == .back)
    }

    @Test func `is not said of an outage that its answers told of, nor that a gateway at rest is back`() {
        let notices = Dialogue()
        #expect(notices.note(unreachable, of: id, isOutage: true) == .stillLost)
        #expect(notices.note(.open, of: id, isOutage: true) == .backInOutage)
        #expect(notices.note(.open, of: id, isOutage: true) == nil)
        #expect(notices.note(unreachable, of: id, isOutage: false) == .lost(error: "refused"))
        #expect(notices.note(.idle, of: id, isOutage: false) == nil)
        #expect(notices.note(.open, of: id, isOutage: false) == nil)
    }

    @Test func `is forgotten with its gateway, since another may get its identity`() {
        let notices = Dialogue()
        _ = notices.note(unreachable, of: id, isOutage: false)
        notices.forget(id)
        #expect(notices.note(unreachable, of: id, isOutage: false) == .lost(error: "refused"))
    }
}
