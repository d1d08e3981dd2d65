package import Foundation

/// Dates as ISO 8601 texts, lossless: a date round-trips to the same `Double`.
///
/// Years are proleptic Gregorian; the year before 0001 is 0000. A year outside 0000–9999 has a sign and at least six digits.
/// Leap seconds are not supported, as in Core Data.
@usableFromInline
package enum DateText {
    /// Beyond this distance from 2001 in seconds (some 285 million years), dates are not exact to the second.
    @inlinable static var maximumInterval: Double { 9_007_199_254_740_992.0 }

    /// Days from 0000-03-01 to 2001-01-01.
    private static let daysToReference: Int64 = 730_791

    // MARK: - Writing

    /// The text in UTC, `2026-11-21T09:15:00Z`, with as many fraction digits as needed; `nil` if the date is NaN or beyond
    /// ``maximumInterval``.
    package static func text(of date: Date) -> String? {
        let interval = date.timeIntervalSinceReferenceDate
        guard abs(interval) < maximumInterval else { return nil }
        if interval == interval.rounded(.towardZero) {
            return text(seconds: Int64(interval), fraction: [])
        }
        var (whole, digits) = decimalDigits(of: abs(interval))
        if interval < 0 {
            // −(whole + 0.digits) = −whole − 1 + the ten's complement of the digits.
            whole = -whole - 1
            digits = complement(of: digits)
        }
        return text(seconds: whole, fraction: digits)
    }

    /// The whole part and the fraction digits of a number with a fraction: the fewest digits that identify it.
    private static func decimalDigits(of number: Double) -> (whole: Int64, fraction: [UInt8]) {
        // Fast path: at most microseconds, computed with integers.
        let micros = (number * 1e6).rounded()
        if micros < maximumInterval, micros / 1e6 == number {
            let all = Int64(micros)
            var rest = all % 1_000_000
            var digits = [UInt8](repeating: 0, count: 6)
            for position in stride(from: 5, through: 0, by: -1) {
                digits[position] = UInt8(rest % 10)
                rest /= 10
            }
            while digits.last == 0 { digits.removeLast() }
            return (all / 1_000_000, digits)
        }
        // The standard library's text is the shortest one: “d.dd”, or “d.dde-08”.
        var mantissa: [UInt8] = []
        var point: Int?
        var exponent = 0
        let text = Array(number.description.utf8)
        for (position, character) in text.enumerated() {
            if character == UInt8(ascii: ".") {
                point = mantissa.count
            } else if character == UInt8(ascii: "e") {
                exponent = Int(String(decoding: text[(position + 1)...], as: UTF8.self)) ?? 0
                break
            } else {
                mantissa.append(character - UInt8(ascii: "0"))
            }
        }
        let wholeCount = (point ?? mantissa.count) + exponent
        if wholeCount < 0 {
            mantissa.insert(contentsOf: [UInt8](repeating: 0, count: -wholeCount), at: 0)
        }
        let split = max(0, wholeCount)
        let whole = mantissa.prefix(split).reduce(Int64(0)) { $0 * 10 + Int64($1) }
        var fraction = Array(mantissa.dropFirst(split))
        while fraction.last == 0 { fraction.removeLast() }
        return (whole, fraction)
    }

    /// 1 − 0.digits. The last digit is not 0.
    private static func complement(of digits: [UInt8]) -> [UInt8] {
        var result = digits.map { 9 - $0 }
        if let last = result.indices.last { result[last] += 1 }
        return result
    }

    private static func text(seconds: Int64, fraction: [UInt8]) -> String {
        let days = (seconds >= 0 ? seconds : seconds - 86_399) / 86_400
        let second = seconds - days * 86_400
        let (year, month, dayOfMonth) = civil(fromDays: days)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32)
        func append(_ number: Int64, width: Int) {
            let digits = String(number)
            for _ in 0..<max(0, width - digits.utf8.count) { bytes.append(UInt8(ascii: "0")) }
            bytes.append(contentsOf: digits.utf8)
        }
        func append2(_ number: Int64) {
            bytes.append(UInt8(ascii: "0") + UInt8(number / 10))
            bytes.append(UInt8(ascii: "0") + UInt8(number % 10))
        }
        if year < 0 || year > 9_999 {
            bytes.append(UInt8(ascii: year < 0 ? "-" : "+"))
            append(abs(year), width: 6)
        } else {
            append2(year / 100)
            append2(year % 100)
        }
        bytes.append(UInt8(ascii: "-"))
        append2(month)
        bytes.append(UInt8(ascii: "-"))
        append2(dayOfMonth)
        bytes.append(UInt8(ascii: "T"))
        append2(second / 3_600)
        bytes.append(UInt8(ascii: ":"))
        append2(second / 60 % 60)
        bytes.append(UInt8(ascii: ":"))
        append2(second % 60)
        if !fraction.isEmpty {
            bytes.append(UInt8(ascii: "."))
            for digit in fraction { bytes.append(UInt8(ascii: "0") + digit) }
        }
        bytes.append(UInt8(ascii: "Z"))
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: - Reading

    /// Parses a date: a day, or a day and a time with hours and minutes, optional seconds and fraction, and optional `Z` or
    /// UTC offset; the default is UTC. `nil` if the text is not a valid date.
    package static func date(of text: String) -> Date? {
        var text = text
        return text.withUTF8 { bytes in
            var scanner = Scanner(bytes: bytes)
            return scanner.date()
        }
    }

    private struct Scanner {
        let bytes: UnsafeBufferPointer<UInt8>
        var position = 0

        var next: UInt8? { position < bytes.count ? bytes[position] : nil }

        /// Consumes the next character if it is one of two.
        mutating func take(_ one: Unicode.Scalar, _ other: Unicode.Scalar? = nil) -> UInt8? {
            guard let next, next == UInt8(ascii: one) || next == UInt8(ascii: other ?? one) else {
                return nil
            }
            position += 1
            return next
        }

        /// A number with a minimum and maximum number of digits.
        mutating func number(_ least: Int, _ most: Int) -> Int64? {
            var value: Int64 = 0
            var count = 0
            while count < most, let next, let digit = DateText.digit(next) {
                value = value * 10 + Int64(digit)
                position += 1
                count += 1
            }
            return count >= least ? value : nil
        }

        mutating func number(_ range: ClosedRange<Int64>) -> Int64? {
            number(2, 2).flatMap { range.contains($0) ? $0 : nil }
        }

        mutating func date() -> Date? {
            let sign = take("+", "-")
            guard var year = sign == nil ? number(4, 4) : number(4, 9) else { return nil }
            if sign == UInt8(ascii: "-") { year = -year }
            guard take("-") != nil, let month = number(1...12), take("-") != nil,
                let day = number(1...31), day <= DateText.dayCount(year: year, month: month)
            else { return nil }
            var seconds = DateText.days(year: year, month: month, day: day) * 86_400
            if position == bytes.count { return DateText.date(seconds: seconds, fraction: []) }

            guard (take("T", "t") ?? take(" ")) != nil, let hour = number(0...23), take(":") != nil,
                let minute = number(0...59)
            else { return nil }
            seconds += hour * 3_600 + minute * 60
            var fraction = 0..<0
            if take(":") != nil {
                guard let second = number(0...59) else { return nil }
                seconds += second
                if take(".", ",") != nil {
                    let start = position
                    while let next, DateText.digit(next) != nil { position += 1 }
                    if position == start { return nil }
                    fraction = start..<position
                }
            }
            guard let offset = offset(), position == bytes.count else { return nil }
            return DateText.date(
                seconds: seconds - offset, fraction: bytes[fraction].map { $0 - UInt8(ascii: "0") })
        }

        /// Seconds east of UTC: empty, `Z`, `+hh:mm`, `+hhmm` or `+hh`, after an optional space.
        mutating func offset() -> Int64? {
            if position == bytes.count { return 0 }
            _ = take(" ")
            if take("Z", "z") != nil { return 0 }
            guard let sign = take("+", "-"), let hours = number(0...23) else { return nil }
            var minutes: Int64 = 0
            if position < bytes.count {
                _ = take(":")
                guard let given = number(0...59) else { return nil }
                minutes = given
            }
            let offset = hours * 3_600 + minutes * 60
            return sign == UInt8(ascii: "-") ? -offset : offset
        }
    }

    private static func digit(_ character: UInt8) -> UInt8? {
        character >= UInt8(ascii: "0") && character <= UInt8(ascii: "9")
            ? character - UInt8(ascii: "0") : nil
    }

    private static func date(seconds: Int64, fraction: [UInt8]) -> Date? {
        let interval = interval(seconds: seconds, fraction: fraction)
        if abs(interval) >= maximumInterval { return nil }
        return Date(timeIntervalSinceReferenceDate: interval)
    }

    /// The number nearest to whole seconds and a fraction of these digits.
    private static func interval(seconds: Int64, fraction: [UInt8]) -> Double {
        var digits = fraction
        while digits.last == 0 { digits.removeLast() }
        if digits.isEmpty { return Double(seconds) }
        // seconds + 0.digits, for negative seconds as −(whole + 0.digits).
        var whole = seconds
        if seconds < 0 {
            whole = -seconds - 1
            digits = complement(of: digits)
        }
        if digits.count <= 6, whole < 9_000_000_000 {
            // Both numbers are exact, so the quotient is the nearest number.
            let scale = [10.0, 100, 1_000, 10_000, 100_000, 1_000_000][digits.count - 1]
            let all = digits.reduce(Double(whole)) { $0 * 10 + Double($1) }
            return seconds < 0 ? -(all / scale) : all / scale
        }
        let text = "\(whole)." + digits.map { String($0) }.joined()
        // Never nil: the text is digits, a point and digits.
        let magnitude = Double(text) ?? Double(whole)
        return seconds < 0 ? -magnitude : magnitude
    }

    // MARK: - The calendar

    // The year is counted from March, so that the leap day is its last; 400 years are one period.

    /// The number of days from 2001-01-01 to a date.
    private static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let period = (year >= 0 ? year : year - 399) / 400
        let yearOfPeriod = year - period * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfPeriod = yearOfPeriod * 365 + yearOfPeriod / 4 - yearOfPeriod / 100 + dayOfYear
        return period * 146_097 + dayOfPeriod - daysToReference
    }

    /// The date that is a number of days after 2001-01-01.
    private static func civil(fromDays days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let days = days + daysToReference
        let period = (days >= 0 ? days : days - 146_096) / 146_097
        let dayOfPeriod = days - period * 146_097
        let yearOfPeriod =
            (dayOfPeriod - dayOfPeriod / 1_460 + dayOfPeriod / 36_524 - dayOfPeriod / 146_096) / 365
        let dayOfYear = dayOfPeriod - (365 * yearOfPeriod + yearOfPeriod / 4 - yearOfPeriod / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        return (yearOfPeriod + period * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func dayCount(year: Int64, month: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
