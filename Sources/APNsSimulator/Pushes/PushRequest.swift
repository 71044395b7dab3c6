/// A request on its way: what has to be known between its header section and its answer.
struct PushRequest {
    var streamID: UInt32 = 0
    /// Tells a row from the one that had its place before.
    var generation: UInt32 = 0
    var id = RequestID(high: 0, low: 0)
    /// Its id goes back as `apns-request-id`.
    var isBroadcast = false
    /// The number of the reply, ``Decider/silence`` for none.
    var reply = Decider.acceptance
    var maximumPayloadByteCount = 0
    var payloadByteCount = 0
    /// Of what has come of its payload; kept only where there is a record.
    var payload = PayloadDigest()
    /// Whether its answer is in the ``AnswerWheel``.
    var isWaiting = false
}
