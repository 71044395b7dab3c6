package import HTTP2
package import QueueCore

/// The configuration of a simulator.
package struct SimulatorConfiguration: Sendable {
    /// The address to listen on; 127.0.0.1 is reached from this machine alone.
    package var host = "127.0.0.1"
    /// 0 lets the system choose one.
    package var port: UInt16 = 0
    /// The port for channel management; 0 lets the system choose one, nil: none.
    package var managementPort: UInt16?
    /// The ports of the binary interface and its feedback service; 0 lets the system choose one, nil: none.
    package var binaryPort: UInt16?
    package var feedbackPort: UInt16?
    /// How many channels an app may have; Apple's limit is 10,000.
    package var channelLimit = 10_000
    /// The folder of certificates and keys; see ``TestAuthority``.
    package var folder: String
    /// Which environment of APNs to simulate: certificates must carry its mark, and the sandbox adds `apns-unique-id`.
    package var environment = Environment.production
    /// What to do with requests that break no rule.
    package var rules = Rules()
    /// SETTINGS_MAX_CONCURRENT_STREAMS, once the client is known.
    package var streamLimit = 1000
    /// The same before a connection without certificate has shown a valid token. Apple's is 1.
    package var streamLimitBeforeToken = 1
    /// Bundle IDs for which tokens may be used; nil for any. A certificate says for which it may be used.
    package var bundleIDs: [String]?
    /// Signing keys to accept beside the folder's own.
    package var signingKeys: [SigningKey] = []
    /// How much time must lie between two new tokens of one key, and between those of two keys of a team on one
    /// connection; Apple's is 20 minutes, 0 switches the rule off.
    package var tokenUpdateInterval = Duration.seconds(20 * 60)
    /// Whether `apns-id` comes back in upper case, as Apple has been seen to do.
    package var returnsUpperCaseIDs = false
    /// A file to record every request and answer in; see ``Recorder``.
    package var recordFile: String?
    /// Reserves memory for this many different `apns-id`s; there may be more.
    package var expectedRequestCount = 0
    /// The SETTINGS of each connection, apart from the limit of streams: for trying a client with small windows or
    /// without a header table.
    package var settings = Settings()
    /// The name of the event loop's thread.
    package var loopName = "apns-simulator"

    package init(folder: String) {
        self.folder = folder
    }
}
