/// A request whose header section has come and which has no answer yet.
struct PushRequest {
    var streamID: UInt32 = 0
    /// Distinguishes a request from an earlier one in the same slot.
    var generation: UInt32 = 0
    var id = RequestID(high: 0, low: 0)
    /// Whether it is a broadcast, whose ID is returned as `apns-request-id`.
    var isBroadcast = false
    /// The number of the reply, ``Decider/silence`` for none.
    var reply = Decider.acceptance
    var maximumPayloadByteCount = 0
    var payloadByteCount = 0
    /// The digest of the payload so far; kept only if there is a record.
    var payload = PayloadDigest()
    /// Whether its answer is in the ``AnswerWheel``.
    var isWaiting = false
}
