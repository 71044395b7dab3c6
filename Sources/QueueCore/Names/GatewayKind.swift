/// The interface of APNs that a queue uses.
package enum GatewayKind: String, CaseIterable, Sendable {
    /// Today's provider API.
    case http2
    /// The binary interface, for compatible services. Apple's own servers no longer support it (switched off 31 March
    /// 2021).
    case binary
}
