import Foundation
import Testing

@testable import Quire

@Suite struct AttributeCoercionTests {
    private func coerce(_ value: AttributeValue, _ type: AttributeType) throws -> AttributeValue {
        try AttributeDescription(name: "x", type: type).coerce(value, entity: "A")
    }

    private static let ownValues: [(AttributeType, AttributeValue)] = [
        (.integer16, 32_767), (.integer32, -2_147_483_648), (.integer64, .integer(.max)),
        (.decimal, .decimal(Decimal(15) / 10)), (.double, .double(.infinity)), (.float, 0.5),
        (.string, "a"), (.boolean, true), (.date, .date(Date(timeIntervalSinceReferenceDate: 1))),
        (.binary, .binary(Data([1]))), (.uuid, .uuid(UUID())),
        (.uri, .uri(URL(fileURLWithPath: "/a"))), (.transformable, .binary(Data([2]))),
        (.composite, .composite([:])),
    ]

    @Test(arguments: ownValues) func ownFormsStay(type: AttributeType, value: AttributeValue) throws
    {
        #expect(try coerce(value, type) == value)
        #expect(try coerce(.null, type) == .null)
        #expect(try coerce(value, .undefined) == value)
        try AttributeDescription(name: "x", type: type).validate(value)
    }

    @Test func integersWidenWhereNothingIsLost() throws {
        #expect(try coerce(3, .double) == .double(3))
        #expect(try coerce(3, .float) == .double(3))
        #expect(try coerce(3, .decimal) == .decimal(3))
        #expect(try coerce(.integer(.max), .decimal) == .decimal(Decimal(Int64.max)))
        #expect(try coerce(0, .boolean) == .boolean(false))
        #expect(try coerce(1, .boolean) == .boolean(true))
        for (value, type) in [
            (AttributeValue.integer(.max), AttributeType.double), (16_777_217, .float),
            (2, .boolean),
            (-1, .boolean),
        ] {
            #expect(throws: QuireError.self) { try coerce(value, type) }
        }
    }

    @Test func doublesBecomeTheDecimalsTheyAreWrittenAs() throws {
        #expect(try coerce(9.99, .decimal).text(as: .decimal) == "9.99")
        #expect(try coerce(1e20, .decimal).text(as: .decimal) == "100000000000000000000")
        #expect(throws: QuireError.self) { try coerce(.double(.infinity), .decimal) }
        #expect(throws: QuireError.self) { try coerce(1e300, .decimal) }
    }

    @Test func floatsAreRounded() throws {
        #expect(try coerce(0.1, .float) == .double(Double(Float(0.1))))
        #expect(try coerce(.double(-.infinity), .float) == .double(-.infinity))
        #expect(throws: QuireError.self) { try coerce(1e39, .float) }
    }

    @Test func notANumberIsRefused() {
        for type in [AttributeType.double, .float, .decimal] {
            #expect(throws: QuireError.self) { try coerce(.double(.nan), type) }
        }
        #expect(throws: QuireError.self) { try coerce(.decimal(.nan), .decimal) }
        #expect(throws: QuireError.self) {
            try coerce(.date(Date(timeIntervalSinceReferenceDate: .nan)), .date)
        }
    }

    @Test func integersAreCheckedByWidth() throws {
        let error = #expect(throws: QuireError.self) { try coerce(32_768, .integer16) }
        #expect(error?.code == .invalidValue)
        #expect(
            error?.message
                == "“A.x” must be a 16-bit integer, -32768 to 32767; 32768 is out of range.")
        #expect(error?.subject == .init(entity: "A", property: "x"))
        #expect(throws: QuireError.self) { try coerce(2_147_483_648, .integer32) }
    }

    @Test func wrongTypesAreRefused() {
        for (type, value) in Self.ownValues {
            for (other, wrong) in Self.ownValues where type != other {
                if (try? coerce(value, type)) == (try? coerce(wrong, type)) { continue }
                let isNumber = { (type: AttributeType) in type.rawValue < 700 || type == .boolean }
                if isNumber(type) && isNumber(other) { continue }
                if [.binary, .transformable].contains(type)
                    && [.binary, .transformable].contains(other)
                {
                    continue
                }
                let error = #expect(throws: QuireError.self) { try coerce(wrong, type) }
                #expect(error?.code == .invalidValue)
                #expect(throws: QuireError.self) {
                    try AttributeDescription(name: "x", type: type).validate(wrong)
                }
            }
        }
        let error = #expect(throws: QuireError.self) { try coerce("old", .integer16) }
        #expect(error?.message == "“A.x” must be a 16-bit integer, not the text “old”.")
    }

    // MARK: - Validation

    private func failure(_ attribute: Attribute, _ value: AttributeValue) -> String? {
        do {
            try attribute.description.validate(value, entity: "A")
            return nil
        } catch let error as QuireError {
            #expect(error.code == .validation)
            #expect(error.subject.entity == "A" && error.subject.property == "x")
            #expect(error.subject.rule != nil)
            return error.message
        } catch {
            return "\(error)"
        }
    }

    @Test func requiredValuesMustBeThere() {
        #expect(failure(Attribute("x", .string), .null) == nil)
        #expect(
            failure(Attribute("x", .string).required(), .null)
                == "“A.x” is required, but has no value.")
        #expect(failure(Attribute("x", .string).required().derived("y"), .null) == nil)
    }

    @Test func valuesMustBeInRange() {
        let year = Attribute("x", .integer16).minimum(1).maximum(10)
        #expect(failure(year, 1) == nil)
        #expect(failure(year, 10) == nil)
        #expect(failure(year, 0) == "“A.x” is 0; the minimum is 1.")
        #expect(failure(year, 11) == "“A.x” is 11; the maximum is 10.")
        #expect(failure(Attribute("x", .decimal).maximum(0.5), .decimal(1)) != nil)
        #expect(failure(Attribute("x", .double).minimum(0), -0.5) != nil)
        let day = Attribute("x", .date).minimum(.date(Date(timeIntervalSinceReferenceDate: 0)))
        #expect(
            failure(day, .date(Date(timeIntervalSinceReferenceDate: -1)))
                == "“A.x” is 2000-12-31T23:59:59Z; the minimum is 2001-01-01T00:00:00Z.")
    }

    @Test func textsMustHaveTheirLengthAndForm() {
        let code = Attribute("x", .string).length(atLeast: 2, atMost: 3).matching("[a-z]+|É+")
        #expect(failure(code, "ab") == nil)
        #expect(failure(code, "ÉÉÉ") == nil)
        #expect(
            failure(code, "a")
                == "“A.x” is too short: its length is 1, the minimum is 2; it is “a”.")
        #expect(
            failure(code, "abcd")
                == "“A.x” is too long: its length is 4, the maximum is 3; it is “abcd”.")
        #expect(failure(code, "ab1") == "“A.x” is “ab1”, which does not match “[a-z]+|É+”.")
        #expect(failure(code, "ab\n") != nil)
        #expect(failure(Attribute("x", .string).length(atMost: 1), "😀") != nil)
    }
}
