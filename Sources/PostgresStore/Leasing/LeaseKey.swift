/// A worker's claim on a job: what every later write about it must present.
package struct LeaseKey: Hashable, Sendable {
    package let queueID: Int32
    package let jobID: Int64
    /// Grows with every claim; a write that names an older one changes nothing.
    package let epoch: Int32
}

/// What a worker knows of a job that it holds.
package struct LeaseProgress: Sendable {
    package let key: LeaseKey
    /// Ordinals below it may have been sent.
    package let watermark: Int
    /// One byte a recipient.
    package let outcomes: [UInt8]

    package init(key: LeaseKey, watermark: Int, outcomes: [UInt8]) {
        self.key = key
        self.watermark = watermark
        self.outcomes = outcomes
    }
}

extension LeaseKey {
    /// Reads the columns `queue_id`, `job_id` and `epoch`.
    init(_ row: Row) {
        self.init(queueID: row.int4("queue_id"), jobID: row.int8("job_id"), epoch: row.int4("epoch"))
    }
}

extension [LeaseKey] {
    /// `$queue_ids`, `$job_ids` and `$epochs`, an element each for every lease.
    var parameters: Parameters {
        [
            "queue_ids": .int4Array(map(\.queueID)), "job_ids": .int8Array(map(\.jobID)),
            "epochs": .int4Array(map(\.epoch)),
        ]
    }

    /// The same, with the devices that a statement is told of for each lease: `$device_ids` are those of all, of which
    /// a lease has those from its `$firsts` to its `$lasts`, counted from 1.
    func parameters(devices: [[Int64]]) -> Parameters {
        var firsts: [Int32] = []
        var lasts: [Int32] = []
        var count: Int32 = 0
        for devices in devices {
            firsts.append(count + 1)
            count += Int32(devices.count)
            lasts.append(count)
        }
        return parameters + [
            "firsts": .int4Array(firsts), "lasts": .int4Array(lasts), "device_ids": .int8Array(devices.flatMap { $0 }),
        ]
    }
}
