import Testing

@testable import Workers

@Suite struct `The sentence of an event` {
    @Test(arguments: [
        (EngineEvent.devicesDeactivated(1), "deactivated 1 device whose token"),
        (.devicesDeactivated(2), "deactivated 2 devices whose token"),
        (.feedbackActedOn(records: 1, deactivated: 1), "deactivated 1 device after 1 report of APNs"),
        (.feedbackActedOn(records: 5, deactivated: 0), "deactivated 0 devices after 5 reports of APNs"),
        (.feedbackRead(queue: "q", count: 1), "the feedback service listed 1 record for q"),
        (.leasesLost(1), "lost 1 lease to "),
        (.leasesFound(1, afterFailover: false), "gave back 1 lease whose claim"),
        (.jobsRescued(1), "put back 1 job of "), (.stopped(sent: 1), "stopped after 1 request"),
        (.jobsLeft(1, pushes: 1), "left 1 job whose end could not be written in time: other workers take it when"),
    ])
    func `counts one thing as one`(event: EngineEvent, start: String) {
        #expect(event.description.hasPrefix(start), "\(event)")
        #expect(!event.description.contains("1 requests"))
    }

    @Test func `says of leases given back whether they may have been served`() {
        #expect(
            EngineEvent.leasesFound(2, afterFailover: false).description
                == "gave back 2 leases whose claim had no answer")
        #expect(
            EngineEvent.leasesFound(2, afterFailover: true).description
                == "gave back 2 leases that may have been served before the database was replaced")
    }

    /// In the database that a tenant has left, lists show its queues no more.
    @Test func `says of a queue that halts where each possible reason is shown`() {
        let event = EngineEvent.queueIsPaused(queue: "acme/com.acme/production")
        let reasons = "is paused, or its tenant is suspended or moves to another database"
        let commands = "pushq-admin queue list; pushq-admin tenant show acme"
        #expect(event.description == "acme/com.acme/production \(reasons); see: \(commands)")
    }

    @Test(arguments: [
        EngineEvent.pushesUncertain(queue: "q", count: 1, reason: "it was cut"), .leftInFlight(1, drain: .seconds(25)),
    ])
    func `says what becomes of pushes without an answer, also of those that were lost before`(event: EngineEvent) {
        #expect(event.description.hasSuffix("are unknown if they may be sent at most once or were lost 5 times"))
    }
}
