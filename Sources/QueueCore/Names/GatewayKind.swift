/// The interface of APNs over which a queue is sent.
package enum GatewayKind: String, CaseIterable, Sendable {
    /// Today's provider API.
    case http2
    /// The binary interface, which Apple's own servers no longer speak (switched off 31 March 2021): for compatible
    /// services.
    case binary
}
