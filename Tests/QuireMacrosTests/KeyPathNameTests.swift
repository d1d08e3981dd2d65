import Foundation
import Quire
import Testing

/// Key paths of typed classes name properties of the model.
@Suite struct KeyPathNameTests {
    @Test(
        arguments: [
            (\.int16, "int16"), (\.int32, "int32"), (\.int64, "int64"), (\.int, "int"),
            (\.double, "double"), (\.float, "float"), (\.decimal, "decimal"),
            (\.string, "string"), (\.boolean, "boolean"), (\.date, "date"), (\.data, "data"),
            (\.uuid, "uuid"), (\.url, "url"), (\.optionalInt16, "optionalInt16"),
            (\.optionalInt32, "optionalInt32"), (\.optionalInt64, "optionalInt64"),
            (\.optionalInt, "optionalInt"), (\.optionalDouble, "optionalDouble"),
            (\.optionalFloat, "optionalFloat"), (\.optionalDecimal, "optionalDecimal"),
            (\.optionalString, "optionalString"), (\.optionalBoolean, "optionalBoolean"),
            (\.optionalDate, "optionalDate"), (\.optionalData, "optionalData"),
            (\.optionalUUID, "optionalUUID"), (\.optionalURL, "optionalURL"),
        ] as [(any PartialKeyPath<Everything> & Sendable, String)])
    func attributeOfEveryTypeHasItsName(
        _ keyPath: any PartialKeyPath<Everything> & Sendable, _ name: String
    ) {
        #expect(Everything.propertyName(for: keyPath) == name)
    }

    @Test func enumerationsAndOwnTypesHaveTheirNames() {
        #expect(Book.propertyName(for: \.genre) == "genre")
        #expect(Book.propertyName(for: \.rating) == "rating")
        #expect(Book.propertyName(for: \.year) == "year")
    }

    @Test func relationshipsAreFollowed() {
        #expect(Book.propertyName(for: \.author?.name) == "author.name")
        #expect(Book.propertyName(for: \.author?.born) == "author.yearOfBirth")
        #expect(Book.propertyName(for: \.tags) == "tags")
        #expect(Book.propertyName(for: \.chapters) == "chapters")
        #expect(Book.propertyName(for: \.author?.objectID) == "author.objectID")
    }

    @Test func whatIsComputedHasNone() {
        #expect(Book.propertyName(for: \.title.count) == nil)
        #expect(Book.propertyName(for: \.label) == nil)
        #expect(Book.propertyName(for: \.readings) == nil)
        #expect(Book.propertyName(for: \.heading) == "title")
    }
}
