import FoundationEssentials
import QueueCore

@testable import OperatorViews
@testable import PostgresStore

/// Figures that a database could have returned.
enum TopSample {
    static func queue(_ app: String, tenant: String = "acme") -> QueueName {
        QueueName(tenant: tenant, app: app, environment: .production)
    }

    /// Four queues: one sends below its limit, one is paused, one has an outage, and one has nothing to do.
    static var loads: QueueLoads {
        var shop = QueueLoad(queue: queue("com.acme.shop"))
        shop.rate = 2000
        (shop.waitingJobs, shop.waitingRecipients, shop.isPartial) = (2409, 1_204_500, true)
        shop.oldest = .seconds(250)
        (shop.workers, shop.inFlight, shop.sentPerSecond, shop.seconds) = (2, 820, 1240, 5)
        (shop.accepted, shop.unanswered) = (6190, 3)
        shop.refused = [ReasonCount(.named("Unregistered"), 55), ReasonCount(.named("BadDeviceToken"), 5)]
        var times = [Int](repeating: 0, count: AnswerTimes.bounds.count + 1)
        (times[4], times[6]) = (6100, 150)
        shop.answerTimes = AnswerTimes(counts: times)
        var news = QueueLoad(queue: queue("com.acme.news"))
        news.pausedReason = "wrong badge"
        (news.waitingRecipients, news.oldest) = (12, .seconds(4000))
        var radio = QueueLoad(queue: queue("com.acme.radio"))
        (radio.inOutage, radio.waitingRecipients, radio.oldest) = (1, 7, .seconds(3))
        var loads = QueueLoads()
        loads.queues = [shop, news, radio, QueueLoad(queue: queue("com.acme.idle"))]
        loads.found = 4
        return loads
    }

    static func worker(_ name: String, silence: Duration = .seconds(2)) -> WorkerSummary {
        WorkerSummary(
            id: 1, name: name, version: "0.1.0", startedAt: Date(timeIntervalSince1970: 0),
            seenAt: Date(timeIntervalSince1970: 0), isDraining: false, isAsleep: false, heldJobs: 12,
            heldRecipients: 6000, queues: "*", inFlight: 410, connections: 4, streams: 4000, unreachableQueues: 0,
            queuesInOutage: 1, prevention: nil, silence: silence)
    }

    /// The figures at 09:03:44.
    static var figures: TopFigures {
        TopFigures(
            takenAt: Date(timeIntervalSince1970: 1_800_003_824), loads: loads,
            workers: [worker("db-1:311"), worker("db-2:77", silence: .seconds(40))])
    }
}
