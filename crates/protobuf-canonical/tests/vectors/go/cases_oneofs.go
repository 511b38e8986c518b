package main

// oneofs adds oneofs: the set members come last, in the order in which the oneofs are declared. Oneofs has the numbers.
func (s *suite) oneofs() {
	first, second, third := varint(30, 1), varint(1, 1), double(6, 1)
	s.becomes("oneofs/declaration-order-against-numbers", "Oneofs",
		join(second, third, first), join(first, second, third))
	s.keeps("oneofs/already-in-declaration-order", "Oneofs", first, second, third)
	ordinary := join(varint(5, 1), varint(7, 1), varint(10, 1), message(22, uvarints(1)), varintEntry(23, 1), text(25, "z"))
	s.becomes("oneofs/after-ordinary-fields", "Oneofs",
		join(second, text(2, "x"), varint(5, 1), third, varint(7, 1), varint(10, 1), varint(22, 1),
			varintEntry(23, 1), text(25, "z")),
		join(ordinary, text(2, "x"), second, third))
	s.becomes("oneofs/in-number-order-on-the-wire", "Oneofs",
		join(second, text(2, "x"), varint(5, 1), third, varint(7, 1), text(25, "z")),
		join(varint(5, 1), varint(7, 1), text(25, "z"), text(2, "x"), second, third))
	s.becomes("oneofs/synthetic-is-an-ordinary-field", "Oneofs",
		join(text(2, "x"), varint(7, 0), varint(5, 1)), join(varint(5, 1), varint(7, 0), text(2, "x")))
	s.becomes("oneofs/before-unknown-fields", "Oneofs",
		join(varint(50, 1), text(2, "x"), varint(8, 1), varint(5, 1)),
		join(varint(5, 1), text(2, "x"), varint(50, 1), varint(8, 1)))

	s.becomes("oneofs/last-member-wins", "Oneofs", join(text(2, "x"), varint(30, 9)), varint(30, 9))
	s.becomes("oneofs/last-member-wins/back-and-forth", "Oneofs",
		join(varint(30, 1), text(2, "x"), varint(30, 2), text(2, "y")), text(2, "y"))
	s.becomes("oneofs/last-member-wins/with-others-between", "Oneofs",
		join(varint(30, 1), varint(1, 1), text(25, "z"), text(2, "y"), varint(21, 2), varint(5, 3)),
		join(varint(5, 3), text(25, "z"), text(2, "y"), varint(21, 2)))
	s.becomes("oneofs/last-value-of-the-same-scalar-wins", "Oneofs", join(text(2, "x"), text(2, "y")), text(2, "y"))

	s.keeps("oneofs/default-is-kept/int32", "Oneofs", varint(30, 0))
	s.keeps("oneofs/default-is-kept/string", "Oneofs", text(2, ""))
	s.keeps("oneofs/default-is-kept/bool", "Oneofs", varint(1, 0))
	s.keeps("oneofs/default-is-kept/enum", "Oneofs", varint(21, 0))
	s.keeps("oneofs/default-is-kept/bytes", "Oneofs", message(20))
	s.keeps("oneofs/default-is-kept/double", "Oneofs", double(6, 0))
	s.keeps("oneofs/default-is-kept/message", "Oneofs", message(11))
	s.becomes("oneofs/default-wins-over-a-value", "Oneofs", join(text(2, "x"), varint(30, 0)), varint(30, 0))
	s.becomes("oneofs/bool-as-2", "Oneofs", varint(1, 2), varint(1, 1))
	s.becomes("oneofs/int32-truncated-to-zero", "Oneofs", varint(30, 1<<32), varint(30, 0))
	s.keeps("oneofs/unknown-enum-value", "Oneofs", signed(21, -99))
	s.keeps("oneofs/negative-zero", "Oneofs", fixed64(6, 1<<63))

	a1, a2 := message(4, text(1, "a"), varint(99, 1)), message(4, varint(2, 2), varint(99, 2))
	b := message(3, varint(2, 3))
	s.becomes("oneofs/same-message-member-twice-is-merged", "Oneofs",
		join(a1, a2), message(4, text(1, "a"), varint(2, 2), varint(99, 1), varint(99, 2)))
	s.becomes("oneofs/message-members/A-B", "Oneofs", join(a1, b), b)
	s.becomes("oneofs/message-members/A-B-A-forgets-the-first-A", "Oneofs", join(a1, b, a2), a2)
	s.becomes("oneofs/message-members/A-B-A-A", "Oneofs",
		join(a1, b, a2, a1), message(4, text(1, "a"), varint(2, 2), varint(99, 2), varint(99, 1)))
	s.becomes("oneofs/message-members/A-scalar-A", "Oneofs", join(a1, varint(1, 0), a2), a2)
	s.becomes("oneofs/message-members/A-empty-B", "Oneofs", join(a1, message(3)), message(3))
	s.becomes("oneofs/message-members/A-other-oneof-A", "Oneofs",
		join(a1, text(2, "x"), a2),
		join(text(2, "x"), message(4, text(1, "a"), varint(2, 2), varint(99, 1), varint(99, 2))))
	s.becomes("oneofs/message-member-is-canonicalized", "Oneofs",
		message(12, varint(2, 5), varint(1, 0)), message(12, varint(2, 5)))
	s.becomes("oneofs/inside-a-message-given-in-pieces", "Node",
		join(message(3, message(6, varint(2, 1))), message(3, message(7, varint(2, 2))),
			message(3, message(6, text(1, "l")))),
		message(3, message(6, text(1, "l"))))
	s.becomes("oneofs/merged-across-pieces", "Node",
		join(message(3, message(6, varint(2, 1))), varint(2, 7), message(3, message(6, text(1, "l")))),
		join(varint(2, 7), message(3, message(6, text(1, "l"), varint(2, 1)))))
	s.becomes("oneofs/deep", "Node",
		message(7, message(6, varint(2, 1)), message(7, message(5, text(1, "k")), varint(2, 0))),
		message(7, message(7, message(5, text(1, "k"), message(2)))))
}
