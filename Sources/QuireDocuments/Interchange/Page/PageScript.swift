/// The script of a page: plain JavaScript, whose parts are declared in four files. No part contains an address, `</script` or `<!--`.
enum PageScript {
    /// All of it.
    static let text = "\n" + data + "\n" + views + "\n" + model + "\n" + start + "\n"

    /// Reading the JSON, objects and their labels, values as texts, searching and sorting.
    private static let data = #"""
        "use strict";

        // The objects are in script elements of JSON, one for each batch, and pictures in elements of base64. Both are read when
        // they are first needed. No text of the document is parsed as HTML: it reaches the page as text nodes and attributes.

        const page = JSON.parse(document.getElementById("model").textContent);
        const entities = new Map(page.entities.map((entity) => [entity.name, entity]));

        for (const entity of page.entities) {
            entity.batches = [];
            entity.children = page.entities.filter((other) => other.parent === entity.name);
            entity.depth = entity.parent ? entities.get(entity.parent).depth + 1 : 0;
            const columns = entity.properties.filter((property) => property.column);
            entity.attributes = columns.filter((property) => property.kind === "attribute");
            entity.columns = [...entity.attributes, ...columns.filter((property) => property.kind !== "attribute")];
        }
        for (const element of document.querySelectorAll("script[data-entity]")) {
            entities.get(element.dataset.entity).batches.push(element);
        }

        // Objects

        /** The objects of exactly one entity. A row has the object's key, then the values of the entity's columns. */
        function ownObjects(entity) {
            entity.objects ??= entity.batches.flatMap((element) =>
                JSON.parse(element.textContent).map((values) => ({ entity, key: values[0], values })));
            return entity.objects;
        }

        /** The objects of an entity and of its sub-entities. */
        function allObjects(entity) {
            return [entity, ...descendants(entity)].flatMap(ownObjects);
        }

        function descendants(entity) {
            return entity.children.flatMap((child) => [child, ...descendants(child)]);
        }

        function totalCount(entity) {
            return descendants(entity).reduce((sum, child) => sum + child.count, entity.count);
        }

        /** The object of an identifier such as "Book/p12". */
        function find(id) {
            const slash = id.indexOf("/");
            return findObject(entities.get(id.slice(0, slash)), id.slice(slash + 1));
        }

        function findObject(entity, key) {
            if (!entity) return undefined;
            entity.index ??= new Map(ownObjects(entity).map((object) => [object.key, object]));
            return entity.index.get(key);
        }

        function identifier(object) {
            return `${object.entity.name}/${object.key}`;
        }

        // Labels

        const labelNames = \#(ObjectLabel.names);

        /** The attribute that names an entity's objects. */
        function labelProperty(entity) {
            if (entity.label === undefined) {
                const texts = entity.attributes.filter((property) => property.form === "text");
                entity.label =
                    labelNames.map((name) => texts.find((property) => property.name === name)).find(Boolean) ??
                    texts[0] ?? null;
            }
            return entity.label;
        }

        function label(object) {
            if (object.label === undefined) {
                const property = labelProperty(object.entity);
                const text = property ? plainText(object.values[property.column], property).trim() : "";
                object.label = text ? shortened(text.split("\n", 1)[0], 80) : identifier(object);
            }
            return object.label;
        }

        function shortened(text, length) {
            return text.length > length ? text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, "") + "…" : text;
        }

        // Values

        /** A value as text, to search, to sort and to shorten. */
        function plainText(value, property) {
            if (value === null || value === undefined) return "";
            if (property.kind === "one") return labelOf(value);
            if (property.kind === "many") return String(value.length);
            if (typeof value === "object") return value.bytes === undefined ? "" : sizeText(value.bytes);
            return String(value);
        }

        function labelOf(id) {
            const object = find(id);
            return object ? label(object) : id;
        }

        const numberFormat = new Intl.NumberFormat("en");

        /** A number of objects, pages or bytes; values are not grouped by thousands. */
        function numberText(number) {
            return numberFormat.format(number);
        }

        function countText(count, noun) {
            const plural = noun.endsWith("y") ? noun.slice(0, -1) + "ies" : noun + "s";
            return `${numberText(count)} ${count === 1 ? noun : plural}`;
        }

        function sizeText(bytes) {
            if (bytes < 1000) return countText(bytes, "byte");
            const units = ["KB", "MB", "GB", "TB"];
            let unit = -1;
            do {
                bytes /= 1000;
                unit += 1;
            } while (bytes >= 999.5 && unit < units.length - 1);
            return `${bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
        }

        // Searching and sorting

        /** A text without case and accents. */
        function folded(text) {
            if (/^[\x00-\x7F]*$/.test(text)) return text.toLowerCase();
            return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
        }

        function terms(query) {
            return folded(query).split(/\s+/).filter(Boolean);
        }

        /** What a search looks at: an object's attributes and its identifier. */
        function searchText(object) {
            object.searchText ??= folded(
                object.entity.attributes.map((property) => plainText(object.values[property.column], property))
                    .join("\n") + "\n" + identifier(object));
            return object.searchText;
        }

        /** What the filter of a table looks at: also the names of related objects, which the table shows. */
        function filterText(object) {
            object.filterText ??= searchText(object) + "\n" + folded(
                object.entity.columns.filter((property) => property.kind === "one")
                    .map((property) => plainText(object.values[property.column], property)).join("\n"));
            return object.filterText;
        }

        function matches(text, terms) {
            return terms.every((term) => text.includes(term));
        }

        const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

        /** What objects are sorted by; null for those without a value, which come last. */
        function sortKey(object, property) {
            const value = object.values[property.column];
            if (value === null || value === undefined) return null;
            if (property.kind === "many") return value.length;
            if (typeof value === "object") return value.bytes ?? null;
            if (typeof value === "boolean") return Number(value);
            if (property.form === "number") return Number(value);
            if (property.form === "date") return Date.parse(value);
            return plainText(value, property);
        }

        function sorted(objects, property, isDescending) {
            const keyed = objects.map((object) => ({ object, key: sortKey(object, property) }));
            const direction = isDescending ? -1 : 1;
            keyed.sort((left, right) => {
                if (left.key === null || right.key === null) return (left.key === null) - (right.key === null);
                if (typeof left.key === "string" && typeof right.key === "string") {
                    return direction * collator.compare(left.key, right.key);
                }
                return direction * (left.key < right.key ? -1 : left.key > right.key ? 1 : 0);
            });
            return keyed.map((entry) => entry.object);
        }
        """#
}
