import FoundationEssentials
import Testing

extension Trait where Self == ConditionTrait {
    /// Enables tests that listen at ::1. Containers often do not have that address, nor do machines without IPv6.
    static var withIPv6Loopback: Self { .enabled(if: hasIPv6Loopback, "there is no ::1 here") }
}

/// The kernel's list has a line for each address. Without IPv6, there is no list.
private let hasIPv6Loopback: Bool = {
    let list = try? String(contentsOfFile: "/proc/net/if_inet6", encoding: .utf8)
    return list?.split(separator: "\n").contains { $0.hasPrefix("00000000000000000000000000000001 ") } ?? false
}()
