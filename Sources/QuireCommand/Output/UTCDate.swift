import Foundation

/// Writes points in time as ISO 8601 in UTC: `2026-01-05T09:00:00Z`, with a fraction when there is one.
///
/// Foundation's formatters round to milliseconds and refuse years before 1; a dump must tell any two different
/// dates apart, so the fraction has as many digits as it takes to read back the same date.
enum UTCDate {
    /// Days from 1970-01-01 to 2001-01-01, the reference date of Foundation and of Core Data.
    private static let referenceDay = 11_323

    /// The text of a date.
    static func text(_ date: Date) -> String {
        let interval = date.timeIntervalSinceReferenceDate
        // Beyond this, a second is no longer one step of a Double, and a calendar means nothing.
        guard interval.isFinite, interval.magnitude < 9e15 else {
            return "2001-01-01T00:00:00Z plus \(interval) s"
        }
        let whole = interval.rounded(.down)
        let seconds = Int(whole)
        var (day, second) = seconds.quotientAndRemainder(dividingBy: 86_400)
        if second < 0 {
            second += 86_400
            day -= 1
        }
        let (year, month, dayOfMonth) = civil(day + referenceDay)
        let years =
            (0...9999).contains(year)
            ? digits(year, 4) : (year < 0 ? "-" : "+") + digits(abs(year), 6)
        return "\(years)-\(digits(month, 2))-\(digits(dayOfMonth, 2))T"
            + "\(digits(second / 3600, 2)):\(digits(second / 60 % 60, 2)):\(digits(second % 60, 2))"
            + "\(fraction(interval - whole, whole: whole))Z"
    }

    /// The shortest fraction which, added to the whole seconds, is the same Double again.
    private static func fraction(_ fraction: Double, whole: Double) -> String {
        if fraction == 0 { return "" }
        var scale = 10.0
        for count in 1...15 {
            let scaled = (fraction * scale).rounded()
            if scaled < scale, whole + scaled / scale == whole + fraction {
                return "." + digits(Int(scaled), count)
            }
            scale *= 10
        }
        return "." + digits(Int((fraction * 1e15).rounded(.down)), 15)
    }

    private static func digits(_ number: Int, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }

    /// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar without an end.
    ///
    /// Years are counted from March, so that the leap day is a year's last, in eras of 400 years.
    private static func civil(_ day: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = day + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        return (
            yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month,
            dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        )
    }
}
