import Foundation
import Quire

/// The line of a progress bar: what a `Progress` reads, over time, as text of a given width.
///
/// A pure value: it reads no clock and writes nowhere; see ``ProgressBar``, which does. Whatever the readings are, such as
/// totals that grow, counts beyond the total and times that go backwards, the text is never wider than asked for.
struct ProgressLine {
    /// The unit that a progress counts.
    enum Unit { case bytes, objects, rows, fraction }

    /// The values of a `Progress` at one time.
    struct Reading: Equatable {
        var completed: Int64
        /// 0 or less while it is unknown.
        var total: Int64
        /// Including that of children, which ``completed`` does not count until they finish.
        var fraction: Double
    }

    private let title: String
    private let unit: Unit
    /// The amount in the unit, or from 0 to 1 if that is a fraction.
    private var done = 0.0
    /// `nil` while it is unknown.
    private var total: Double?
    /// The number of seconds since the beginning.
    private var time = 0.0
    private var rate = SmoothedRate()
    /// The rate and the seconds left as they are shown, which change less often than the bar.
    private var shown: (time: Double, rate: Double?, left: Double?)?

    /// Makes a line.
    ///
    /// - Parameter title: What is being done, such as “Exporting Library.quire”; names in it may contain any characters.
    init(_ title: String, of unit: Unit) {
        self.title = TerminalText.line(title)
        self.unit = unit
    }

    /// The completed part, from 0 to 1; `nil` while the total is unknown.
    var fraction: Double? { total.map { done / $0 } }

    /// Takes in a reading.
    ///
    /// - Parameter time: The number of seconds since the beginning.
    mutating func update(_ reading: Reading, at time: Double) {
        self.time = time
        let completed = Double(max(reading.completed, 0))
        let fraction = reading.fraction.isFinite ? min(max(reading.fraction, 0), 1) : 0
        if reading.total <= 0 {
            total = nil
            done = unit == .fraction ? 0 : completed
        } else if unit == .fraction {
            total = 1
            done = fraction
        } else {
            let known = max(Double(reading.total), completed)
            total = known
            done = completed == known ? known : fraction * known
        }
        let isSamePhase = rate.add(done, at: time)
        if let shown, isSamePhase, (0..<Self.secondsBetweenTexts).contains(time - shown.time) {
            return
        }
        shown = (time, rate.value, secondsLeft)
    }

    /// The number of seconds that the rate and the time left stay the same, so that they can be read.
    private static let secondsBetweenTexts = 0.5
    /// Longer estimates mean nothing.
    private static let maximumSecondsLeft = 99.0 * 3600

    private var secondsLeft: Double? {
        guard let total, done < total, done / total >= 0.005, rate.isEstablished,
            let rate = rate.value
        else { return nil }
        let left = (total - done) / rate
        return left <= Self.maximumSecondsLeft ? left : nil
    }

    // MARK: - Text

    /// The line, at most some columns wide.
    ///
    /// - Parameter isASCII: Whether it may have no other characters.
    func text(columns: Int, isASCII: Bool) -> String {
        let title = Columns(isASCII ? Self.ascii(title) : title)
        let ellipsis = isASCII ? "..." : "…"
        let titles = [title, title.shortened(to: max(columns * 2 / 5, 10), ellipsis)]
        let details = details.filter { !$0.isEmpty }
        let choices =
            titles.flatMap { title in details.map { (title, $0) } } + titles.map { ($0, "") }
        guard let fraction else {
            for (title, details) in choices
            where title.count + (details.isEmpty ? 0 : 2 + details.count) <= columns {
                return title.text + (details.isEmpty ? "" : "  " + details)
            }
            return title.shortened(to: columns, ellipsis).text
        }
        let percent = "\(Int(fraction * 100)) %"
        // Of constant width, so that the bar stays where it is.
        let wide = String(repeating: " ", count: max(5 - percent.count, 0)) + percent
        for (title, details) in choices {
            let end = details.isEmpty ? 0 : 2 + (details.count + 3) / 4 * 4
            let room = columns - title.count - 2 - wide.count - 2 - end
            guard room >= Self.minimumBarWidth else { continue }
            let bar = Self.bar(fraction, columns: room, isASCII: isASCII)
            return "\(title.text)  \(wide)  \(bar)" + (details.isEmpty ? "" : "  " + details)
        }
        if columns >= wide.count + 1 + Self.minimumTitleWidth {
            let title = title.shortened(to: columns - wide.count - 1, ellipsis).text
            return "\(title) \(wide)"
        }
        return percent.count <= columns ? percent : ""
    }

    /// Including its ends.
    private static let minimumBarWidth = 8
    private static let minimumTitleWidth = 6

    /// The parts after the bar, the most informative first.
    private var details: [String] {
        let isComplete = total.map { done >= $0 } ?? false
        let rate = (isComplete ? nil : shown?.rate).flatMap { rate -> String? in
            switch unit {
            case .bytes: Self.bytes(rate) + "/s"
            case .objects, .rows: Self.grouped(rate) + "/s"
            case .fraction: nil
            }
        }
        // The progress does not count everything: what was written is synchronized, checked and renamed after that.
        let left =
            isComplete ? "finishing" : (shown?.left).map { Self.duration(max($0, 1)) + " left" }
        var amount: String?
        switch (unit, total) {
        case (.fraction, nil): amount = Self.duration(time)
        case (.fraction, _): break
        case (_, nil) where done == 0: amount = Self.duration(time)
        case (.bytes, let total):
            amount = Self.bytes(done) + (total.map { " of " + Self.bytes($0) } ?? "")
        case (_, let total):
            amount =
                Self.grouped(done) + (total.map { " of " + Self.grouped($0) } ?? "")
                + (unit == .rows ? " rows" : " objects")
        }
        let choices: [[String?]] = [[amount, rate, left], [amount, left], [left]]
        return choices.map { $0.compactMap(\.self).joined(separator: ", ") }
    }

    private static func bar(_ fraction: Double, columns: Int, isASCII: Bool) -> String {
        let width = columns - 2
        if isASCII {
            let full = Int(fraction * Double(width))
            return "[" + String(repeating: "#", count: full)
                + String(repeating: " ", count: width - full) + "]"
        }
        let eighths = Int(fraction * Double(width * 8))
        let part = eighths % 8 == 0 ? "" : ["▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8 - 1]
        let filled = String(repeating: "█", count: eighths / 8) + part
        return "▕" + filled + String(repeating: " ", count: width - filled.count) + "▏"
    }

    // MARK: - Numbers

    /// A number of bytes in a unit that leaves at most three digits: “84 MB”.
    static func bytes(_ count: Double) -> String {
        if count < 999.5 {
            return count.rounded() == 1 ? "1 byte" : "\(Int(count.rounded())) bytes"
        }
        var value = count / 1000
        var units = ["kB", "MB", "GB", "TB", "PB", "EB"][...]
        while value >= 999.5, units.count > 1 {
            value /= 1000
            units.removeFirst()
        }
        if value >= 9.95 { return "\(Int(value.rounded())) \(units[units.startIndex])" }
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) \(units[units.startIndex])"
    }

    /// A number with commas: “12,000”.
    static func grouped(_ number: Double) -> String {
        let digits = String(Int64(min(number, 9e18).rounded()))
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text += "," }
            text.append(digit)
        }
        return text
    }

    /// A duration in its two greatest units: “3 s”, “2 min 5 s”, “1 h 20 min”.
    static func duration(_ seconds: Double) -> String {
        let whole = Int(min(max(seconds, 0), 1e9).rounded())
        switch whole {
        case ..<60: return "\(whole) s"
        case ..<3600: return "\(whole / 60) min" + (whole % 60 == 0 ? "" : " \(whole % 60) s")
        default:
            let minutes = whole / 60
            return "\(minutes / 60) h" + (minutes % 60 == 0 ? "" : " \(minutes % 60) min")
        }
    }

    private static func ascii(_ text: String) -> String {
        String(text.map { $0.isASCII ? $0 : "?" })
    }
}

// MARK: - Rate

/// The rate at which an amount grows, smoothed over some seconds.
private struct SmoothedRate {
    private var last: (amount: Double, time: Double)?
    /// Exponentially weighted sums of rates and of their weights.
    private var (sum, weight) = (0.0, 0.0)
    private var seconds = 0.0
    private var advances = 0

    private static let smoothing = 5.0

    /// Takes in an amount.
    ///
    /// - Returns: Whether it continues the last one. An amount that is less begins anew, as the next phase of some work does.
    mutating func add(_ amount: Double, at time: Double) -> Bool {
        guard let last, amount >= last.amount else {
            let isFirst = last == nil
            self = SmoothedRate()
            last = (amount, time)
            return isFirst
        }
        let interval = time - last.time
        // What comes before the beginning is not slow.
        if interval > 0, advances > 0 || amount > last.amount {
            let kept = exp(-interval / Self.smoothing)
            sum = sum * kept + (amount - last.amount) / interval * (1 - kept)
            weight = weight * kept + 1 - kept
            seconds += interval
            if amount > last.amount { advances += 1 }
        }
        // An interval of 0 would be an infinite rate; its amount is counted with the next.
        if interval != 0 { self.last = (amount, time) }
        return true
    }

    /// The rate per second; `nil` if it is 0, or not known yet.
    var value: Double? {
        guard seconds >= 1, weight > 0, sum > 0, sum / weight < 1e18 else { return nil }
        return sum / weight
    }

    /// Whether it has been observed for so long that it says something about the future.
    var isEstablished: Bool { seconds >= 2 && advances >= 3 }
}

// MARK: - Columns

/// A text and the number of columns that it takes on a terminal, or a few more: terminals disagree about some characters.
struct Columns {
    let text: String
    let count: Int

    init(_ text: String) {
        self.text = text
        count = text.reduce(0) { $0 + Self.count($1) }
    }

    /// The text without its middle if it is wider than some columns. What is done is at its beginning, a file's name at its end.
    func shortened(to columns: Int, _ ellipsis: String) -> Columns {
        if count <= columns { return self }
        let characters = Array(text)
        var kept = (start: 0, end: characters.count)
        var room = columns - ellipsis.count
        if room < 2 { return Columns("") }
        var isStart = false
        while kept.start < kept.end {
            room -= Self.count(characters[isStart ? kept.start : kept.end - 1])
            if room < 0 { break }
            if isStart { kept.start += 1 } else { kept.end -= 1 }
            isStart.toggle()
        }
        return Columns(
            String(characters[..<kept.start]) + ellipsis + String(characters[kept.end...]))
    }

    /// The text without its end if it is wider than some columns.
    func cut(to columns: Int) -> String {
        if count <= columns { return text }
        var room = columns - 1
        let kept = text.prefix {
            room -= Self.count($0)
            return room >= 0
        }
        return kept + "…"
    }

    private static func count(_ character: Character) -> Int {
        character.unicodeScalars.reduce(0) { $0 + count($1) }
    }

    private static func count(_ scalar: Unicode.Scalar) -> Int {
        switch scalar.value {
        case ..<0x300: return 1
        // A picture instead of a letter, which is wider.
        case 0xFE0F: return 1
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x1F000...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default: break
        }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: return scalar.properties.isEmojiPresentation ? 2 : 1
        }
    }
}
