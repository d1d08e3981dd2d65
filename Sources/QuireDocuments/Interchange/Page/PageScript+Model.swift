extension PageScript {
    /// The view of the model, and its diagram.
    static let model = #"""
        // The model: a diagram, and tables that say the same.

        function modelView() {
            return {
                title: "Model",
                nodes: [
                    heading("Model"),
                    page.entities.length ? make("figure", { class: "diagram" },
                        scrolling("Diagram", diagram()),
                        make("figcaption", { class: "note" },
                            "A forked end means many objects, a bar means one, and a triangle points to the superentity. The tables below show the same."))
                        : make("p", null, "The model has no entities."),
                    page.entities.map(entitySection),
                ],
            };
        }

        function entitySection(entity) {
            const own = entity.properties.filter((property) => property.own);
            const rows = own.map((property) => make("tr", null,
                make("th", { scope: "row" }, property.name),
                make("td", { class: "prose" }, property.destination
                    ? [property.kind === "many" ? "many " : "one ", link(entityAddress(entities.get(property.destination)), property.destination)]
                    : property.type),
                make("td", { class: "wide" }, propertyNotes(property).join(", ") || noValue("none"))));
            return make("section", null,
                make("h2", null, link(entityAddress(entity), entity.name), entity.abstract ? badge("abstract") : null),
                entity.parent ? make("p", { class: "facts" }, "Inherits from ", link(entityAddress(entities.get(entity.parent)), entity.parent), ".") : null,
                own.length ? table(`Properties of ${entity.name}`, ["Property", "Type", "Notes"], rows) : make("p", { class: "note" }, "No properties of its own."),
                entity.unique.length ? make("p", { class: "note" }, `Unique: ${entity.unique.map((names) => names.join(" and ")).join("; ")}`) : null);
        }

        function propertyNotes(property) {
            const notes = [];
            if (property.required) notes.push("required");
            if (property.ordered) notes.push("ordered");
            if (property.inverse) notes.push(`inverse ${property.inverse}`);
            if (property.deleteRule) notes.push(`delete rule ${property.deleteRule}`);
            if (property.derived) notes.push(`derived from ${property.derived}`);
            if (property.transient) notes.push("in memory only");
            if (property.external) notes.push("may be in a file");
            if (property.initial !== undefined) notes.push(`default ${property.initial}`);
            return notes;
        }

        // The diagram. Entities are in columns by their distance from one of them, so that lines join neighbouring columns, or
        // entities of the same column, and cross no box. The middle entity is the one that gives the best proportions.

        const box = { header: 30, row: 20, padding: 10, columnGap: 96, rowGap: 28, mostRows: 14, minimum: 130, maximum: 280 };
        const canvas = document.createElement("canvas").getContext("2d");

        function textWidth(text, isBold) {
            canvas.font = `${isBold ? "600 " : ""}13px system-ui, sans-serif`;
            return canvas.measureText(text).width;
        }

        function fitted(text, width) {
            if (textWidth(text) <= width) return text;
            let length = text.length;
            while (length > 1 && textWidth(text.slice(0, length) + "…") > width) length -= 1;
            return text.slice(0, length) + "…";
        }

        /** An element of SVG, in the namespace of the one that the page begins with. */
        function draw(tag, attributes, ...children) {
            const element = document.createElementNS(document.getElementById("drawing").namespaceURI, tag);
            for (const [name, value] of Object.entries(attributes ?? {})) {
                if (value !== null && value !== undefined) element.setAttribute(name, value);
            }
            element.append(...children.flat(2));
            return element;
        }

        function diagram() {
            const boxes = new Map(page.entities.map((entity) => [entity.name, measuredBox(entity)]));
            const lines = diagramLines(boxes);
            for (const line of lines) {
                if (line.from !== line.to) {
                    line.from.neighbours.add(line.to);
                    line.to.neighbours.add(line.from);
                }
            }
            const size = placeGroups(groups([...boxes.values()]));
            const margin = 12;
            const arcs = lines.some((line) => line.from.column === line.to.column) ? box.columnGap / 2 : 0;
            const [width, height] = [size.width + arcs + 2 * margin, size.height + 2 * margin];
            const svg = draw("svg", {
                viewBox: `${-margin} ${-margin} ${width} ${height}`, width, height, role: "img",
                "aria-label": `Diagram of ${countText(boxes.size, "entity")} and their relationships`,
            }, lines.map(drawnLine), [...boxes.values()].map(drawnBox));
            // Beyond this, it is scrolled instead of made smaller.
            svg.style.minWidth = `${Math.round(width * 0.7)}px`;
            return svg;
        }

        function measuredBox(entity) {
            const own = entity.properties.filter((property) => property.own);
            const relationships = own.filter((property) => property.destination);
            const others = own.filter((property) => !property.destination);
            const kept = Math.max(3, box.mostRows - relationships.length);
            const rows = others.length > kept + 1 ? others.slice(0, kept) : others;
            const more = others.length - rows.length;
            const texts = [
                ...rows.map((property) => ({ name: property.name, type: property.type, property })),
                ...(more ? [{ name: `${more} more`, type: "" }] : []),
                ...relationships.map((property) => ({ name: property.name, type: property.destination, property, isLink: true })),
            ];
            const natural = Math.max(textWidth(entity.name, true) + 2 * box.padding,
                ...texts.map((row) => textWidth(row.name) + textWidth(row.type) + 2 * box.padding + 16));
            return {
                entity, rows: texts, neighbours: new Set(), x: 0, y: 0, column: 0,
                width: Math.ceil(Math.min(Math.max(natural, box.minimum), box.maximum)),
                height: box.header + texts.length * box.row + (texts.length ? 8 : 0),
            };
        }

        /** The lines: one for a relationship and its inverse together. */
        function diagramLines(boxes) {
            const lines = [];
            for (const from of boxes.values()) {
                if (from.entity.parent) lines.push({ from, to: boxes.get(from.entity.parent), isInheritance: true });
                for (const property of from.entity.properties) {
                    if (!property.own || !property.destination) continue;
                    const to = boxes.get(property.destination);
                    const inverse = property.inverse && to.entity.properties.find((other) => other.name === property.inverse);
                    const order = from.entity.name === to.entity.name
                        ? property.name <= (property.inverse ?? "") || !inverse : from.entity.name < to.entity.name || !inverse;
                    const isShown = inverse?.own ? order : true;
                    if (isShown) lines.push({ from, to, property, inverse });
                }
            }
            return lines;
        }

        /** The groups of boxes that lines join. */
        function groups(boxes) {
            const groups = [];
            const seen = new Set();
            for (const start of boxes) {
                if (seen.has(start)) continue;
                const group = columnsFrom(start).flat();
                for (const member of group) seen.add(member);
                groups.push(group);
            }
            return groups;
        }

        /** The boxes that lines join to one, in columns by their distance from it. */
        function columnsFrom(root) {
            const columns = [[root]];
            const seen = new Set([root]);
            for (const column of columns) {
                const next = [];
                for (const member of column) {
                    for (const neighbour of member.neighbours) {
                        if (seen.has(neighbour)) continue;
                        seen.add(neighbour);
                        next.push(neighbour);
                    }
                }
                if (next.length) columns.push(next);
            }
            return columns;
        }

        function sizeOf(columns) {
            return {
                width: columns.reduce((sum, column) => sum + columnWidth(column) + box.columnGap, -box.columnGap),
                height: Math.max(...columns.map(columnHeight)),
            };
        }

        function columnWidth(column) {
            return Math.max(...column.map((member) => member.width));
        }

        function columnHeight(column) {
            return column.reduce((sum, member) => sum + member.height + box.rowGap, -box.rowGap);
        }

        /** Places the groups in rows, those of many entities first. */
        function placeGroups(groups) {
            const placed = groups.sort((left, right) => right.length - left.length).map((group) => {
                const candidates = group.slice(0, 40).map(columnsFrom);
                const cost = (columns) => {
                    const { width, height } = sizeOf(columns);
                    return Math.abs(Math.log(width / height / 1.4)) + Math.log(width * height) / 2;
                };
                const columns = candidates.reduce((best, columns) => cost(columns) < cost(best) ? columns : best);
                return { columns, ...sizeOf(columns) };
            });
            const limit = Math.max(900, ...placed.map((group) => group.width));
            let [x, y, rowHeight, width] = [0, 0, 0, 0];
            for (const group of placed) {
                if (x > 0 && x + group.width > limit) [x, y, rowHeight] = [0, y + rowHeight + 2 * box.rowGap, 0];
                placeColumns(group, x, y);
                x += group.width + box.columnGap;
                rowHeight = Math.max(rowHeight, group.height);
                width = Math.max(width, x - box.columnGap);
            }
            return { width, height: y + rowHeight };
        }

        function placeColumns({ columns, height }, left, top) {
            let x = left;
            columns.forEach((column, number) => {
                // Boxes are in the order of what they are joined to in the column before.
                const middle = (member) => {
                    const before = [...member.neighbours].filter((other) => columns[number - 1]?.includes(other));
                    return before.reduce((sum, other) => sum + other.y + other.height / 2, 0) / (before.length || 1);
                };
                const order = new Map(column.map((member) => [member, middle(member)]));
                column.sort((first, second) => order.get(first) - order.get(second));
                // Boxes of a column are equally wide, so that no line leaves one of them behind another.
                const width = columnWidth(column);
                let y = top + (height - columnHeight(column)) / 2;
                for (const member of column) {
                    Object.assign(member, { x, y, width, column: number });
                    y += member.height + box.rowGap;
                }
                x += width + box.columnGap;
            });
        }

        /** Where a line meets a box: at the row of its property, or at the header. */
        function port(member, property, side, headerY) {
            const row = member.rows.findIndex((row) => property && row.property === property);
            const y = row < 0 ? headerY : box.header + 4 + (row + 0.5) * box.row;
            return { x: side > 0 ? member.x + member.width : member.x, y: member.y + y, side };
        }

        function drawnLine({ from, to, property, inverse, isInheritance }) {
            const isBefore = from.column < to.column;
            const isSame = from.column === to.column;
            const start = port(from, property, isSame || isBefore ? 1 : -1, box.header / 2);
            const end = port(to, inverse, isSame || !isBefore ? 1 : -1, isInheritance ? 10 : 22);
            if (property && property === inverse) {
                // A loop, of a relationship that is its own inverse.
                start.y -= 6;
                end.y += 6;
            }
            const bend = isSame ? 36 + Math.min(36, Math.abs(end.y - start.y) / 6) : Math.max(40, Math.abs(end.x - start.x) / 2);
            const [startX, endX] = [start.x + start.side * 12, end.x + end.side * 12];
            const path = [`M${start.x} ${start.y}H${startX}C${startX + start.side * bend} ${start.y} ${endX + end.side * bend} ${end.y} ${endX} ${end.y}`];
            if (!isInheritance) path.push(`H${end.x}`, lineEnd(end, property.kind), inverse ? lineEnd(start, inverse.kind) : "");
            const triangle = isInheritance
                ? [draw("path", { class: "triangle", d: `M${end.x} ${end.y}L${endX} ${end.y - 6}V${end.y + 6}Z` })] : [];
            return draw("g", null, draw("path", { class: isInheritance ? "line inheritance" : "line", d: path.join("") }), triangle);
        }

        /** A fork for many objects, a bar for one. */
        function lineEnd({ x, y, side }, kind) {
            const outer = x + side * 10;
            return kind === "many" ? `M${x} ${y - 5}L${outer} ${y}L${x} ${y + 5}` : `M${x + side * 6} ${y - 5}V${y + 5}`;
        }

        function drawnBox(member) {
            const { entity, x, y, width, height, rows } = member;
            const right = x + width - box.padding;
            const header = draw("text", { class: entity.abstract ? "title abstract" : "title", x: x + box.padding, y: y + 20 },
                fitted(entity.name, width - 2 * box.padding));
            // For the mouse only: the tables have links.
            header.addEventListener("click", () => { location.hash = entityAddress(entity); });
            return draw("g", null,
                draw("rect", { class: "box", x, y, width, height, rx: 6 }),
                draw("path", { class: "rule", d: rows.length ? `M${x} ${y + box.header}H${x + width}` : "M0 0" }), header,
                rows.map((row, index) => {
                    const baseline = y + box.header + 4 + index * box.row + 14;
                    const free = width - 2 * box.padding - 12;
                    const typeWidth = Math.min(textWidth(row.type), Math.max(free / 2, free - textWidth(row.name)));
                    return [
                        draw("text", { x: x + box.padding, y: baseline, class: row.isLink ? "relationship" : null },
                            fitted(row.name, free - typeWidth)),
                        draw("text", { x: right, y: baseline, "text-anchor": "end", class: "type" }, fitted(row.type, typeWidth + 1)),
                    ];
                }));
        }
        """#
}
