/// Identifies a worker's claim on a job. Every later write about the job must present it.
package struct LeaseKey: Hashable, Sendable {
    package let queueID: Int32
    package let jobID: Int64
    /// Grows with every claim. A write that names an older epoch changes nothing.
    package let epoch: Int32
}

/// The progress of a job that a worker holds.
package struct LeaseProgress: Sendable {
    package let key: LeaseKey
    /// Recipients below this ordinal may have been sent to.
    package let watermark: Int
    /// One byte per recipient.
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
    /// `$queue_ids`, `$job_ids` and `$epochs`, with one element per lease.
    var parameters: Parameters {
        [
            "queue_ids": .int4Array(map(\.queueID)), "job_ids": .int8Array(map(\.jobID)),
            "epochs": .int4Array(map(\.epoch)),
        ]
    }

    /// The same, with devices for each lease: `$device_ids` contains the devices of all leases, and a lease has those
    /// from its `$firsts` to its `$lasts`, counted from 1.
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
