import Foundation

/// Points in time as the command prints them.
enum DateText {
    /// To the second, in UTC: `2026-11-22T03:10:00Z`.
    static func text(_ date: Date) -> String {
        Date(timeIntervalSince1970: date.timeIntervalSince1970.rounded(.down))
            .formatted(.iso8601)
    }

    /// The text, or null.
    static func json(_ date: Date?) -> JSONValue { JSONValue(date.map(text)) }
}
