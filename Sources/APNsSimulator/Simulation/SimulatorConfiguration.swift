package import HTTP2
package import QueueCore

/// The configuration of a simulator.
package struct SimulatorConfiguration: Sendable {
    /// The address to listen on, or a name of it; 127.0.0.1 is reachable only from this machine.
    package var host = "127.0.0.1"
    /// Host names and addresses that clients use beside `host`, `localhost` and the machine's name. The server's
    /// certificate has them all.
    package var serverNames: [String] = []
    /// The port for pushes; 0 lets the system choose one.
    package var port: UInt16 = 0
    /// The port for channel management; 0 lets the system choose one, nil: none.
    package var managementPort: UInt16?
    /// The ports of the binary interface and its feedback service; 0 lets the system choose one, nil: none.
    package var binaryPort: UInt16?
    package var feedbackPort: UInt16?
    /// The maximum number of channels of an app; Apple's limit is 10,000.
    package var channelLimit = 10_000
    /// The folder of certificates and keys; see ``TestAuthority``.
    package var folder: String
    /// The environment of APNs to simulate. Certificates must carry its mark, and the sandbox adds `apns-unique-id`.
    package var environment = Environment.production
    /// The answers to requests that break no rule of APNs.
    package var rules = Rules()
    /// SETTINGS_MAX_CONCURRENT_STREAMS, once the client is known.
    package var streamLimit = 1000
    /// The same before a connection without a certificate has shown a valid token. Apple's is 1.
    package var streamLimitBeforeToken = 1
    /// The bundle IDs for which tokens may be used; nil for any. A certificate names its own.
    package var bundleIDs: [String]?
    /// Signing keys to accept beside the folder's own.
    package var signingKeys: [SigningKey] = []
    /// The minimum time between two new tokens of one key, and on one connection between the tokens of two keys of a
    /// team. Apple's is 20 minutes; 0 switches the rule off.
    package var tokenUpdateInterval = Duration.seconds(20 * 60)
    /// Whether answers have `apns-id` in upper case, as Apple's sometimes do.
    package var returnsUpperCaseIDs = false
    /// The file in which every request and answer is recorded; nil: none. See ``Recorder``.
    package var recordFile: String?
    /// The number of different `apns-id`s for which memory is reserved; there may be more.
    package var expectedRequestCount = 0
    /// The SETTINGS of each connection, apart from the limit of streams: for testing a client with small windows or
    /// without a header table.
    package var settings = Settings()
    /// How many bytes of bodies a client may send on a connection before more credit; from 65,535 on, which HTTP/2
    /// begins with. Thousands of requests of 4 KB may arrive, so credit is given back in steps of half of this.
    package var connectionWindowSize = 1024 * 1024
    /// The name of the event loop's thread.
    package var loopName = "apns-simulator"

    package init(folder: String) {
        self.folder = folder
    }
}
