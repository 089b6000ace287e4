"""Sentence forms of the shipped text, as each symbol's choices. `{symbol}` is another symbol, or what a document bound.

What a document binds (names, things, numbers) stays the same from its first line to its last; `{Word}` is `{word}`
with a capital letter.
"""

from __future__ import annotations

RULES: dict[str, list[str]] = {
    # a story: {hero} (they, them, their), {friend} (friend_they, …), the {trade} and the {quality} {colour} {thing}
    "story": [
        "{opening} {work}\n\n{weather} {loss} {search} {meeting}\n\n{found} {supper}",
        "{opening} {work} {memory}\n\n{loss} {search}\n\n{weather} {meeting} {found}\n\n{lesson}",
        "{weather} {opening}\n\n{memory} {loss}\n\n{meeting} {search} {found} {supper}\n\n{lesson}",
        "{journey} {opening} {work}\n\n{bargain}\n\n{supper} {lesson}",
        "{opening} {bargain}\n\n{weather} {journey}\n\n{loss} {meeting} {found}",
    ],
    "opening": [
        "{hero} was a {trade} who lived in a {place}.",
        "In a {place} there lived a {trade} whose name was {hero}.",
        "Once there was a {trade} called {hero}, and {their} home was in a {place}.",
        "When {hero} the {trade} came to the {place}, nobody knew {them} yet.",
        "Everyone in the {place} had heard of {hero}, the {trade}, although few had seen {them}.",
    ],
    "work": [
        "{every_day} {they} worked on {product}, and {their} {tool} was never still.",
        "{hero} knew all about {material}, and people came from far away for {their} {product}.",
        "With {material} and {their} {quality} {tool}, {they} made {product} that pleased {everyone}.",
        "To make good {product} one has to {verb} the {material} first, {they} said, and {they} was seldom wrong.",
        "Of all the {trade}s in the country, {they} alone could {verb} {material} without {their} {tool}.",
    ],
    "every_day": ["Every day", "From morning till evening", "Even in winter", "While others slept,", "Day after day"],
    "everyone": [
        "everyone",
        "even the mayor",
        "rich and poor alike",
        "the children most of all",
        "those who could wait",
    ],
    "memory": [
        "The {colour} {thing} that hung above {their} door had once belonged to {their} {relative}.",
        "{Their} {relative} had left {them} a {colour} {thing}, {quality} but dear.",
        "What {they} loved most was a {quality} {thing}, as {colour} as {likeness}.",
    ],
    "relative": ["grandmother", "uncle", "teacher", "eldest sister", "neighbour", "great-grandfather"],
    "likeness": [
        "a field in June",
        "the sky before a storm",
        "old paint",
        "the inside of a shell",
        "a coin that nobody polishes",
    ],
    "loss": [
        "{Time}, {hero} noticed that the {colour} {thing} was gone.",
        "One day the {thing} was not where {they} had left it, although {they} remembered the place exactly.",
        "But {time}, when {hero} reached for the {colour} {thing}, {their} hand found nothing.",
        "Who could have taken the {thing}? {hero} had seen it {time}, and now there was only dust.",
    ],
    "search": [
        "{They} looked behind the {tool} and beneath the {material}, but found {nothing}.",
        "{They} emptied {number} drawers and asked the {animal} that sat by the door.",
        "{They} sat down, counted to {number}, and began to search the house from top to bottom.",
        "Neither the neighbours nor the {animal} could say where it was, so {they} searched on alone.",
        "If the {animal} had been able to speak, it would have saved {them} {number} hours.",
    ],
    "nothing": ["nothing", "only a button", "dust and an old letter", "everything else", "the tail of a {animal}"],
    "meeting": [
        "Then {friend} came by and offered to help {hero} at once.",
        '"I have lost my {thing}," {they} said to {friend}. "Then let us look together," said {friend}.',
        '{friend}, who was a {friend_trade}, heard the noise and came in. "Is it {colour}?" {friend_they} asked.',
        '"Tell me what it looks like," said {friend} the {friend_trade}. "It is {colour}," said {hero}, "and '
        '{quality}."',
        "Because {friend} had once lost {friend_their} own {thing}, {friend_they} understood {hero} without a word.",
    ],
    "found": [
        "At last they found the {thing} {where}, {state}.",
        'It was {friend} who saw something {colour} {where}. "Your {thing}!" {friend_they} cried.',
        "After {number} hours the {animal} led them to it: the {colour} {thing} lay {where}.",
        '"{Where}," said {friend}, "I have found what is yours." And {hero} took the {thing} from '
        "{friend_their} hands.",
    ],
    "state": ["dusty but whole", "as {colour} as ever", "warm from the sun", "where the {animal} had dragged it"],
    "bargain": [
        '{friend} had {number} {goods} and wanted the {colour} {thing}. "For {number} {goods} it is yours," '
        "said {hero}, "
        "and so {friend} went home with the {thing} and {hero} with {number} {goods}.",
        '"What does the {thing} cost?" asked {friend}. "{Number} {goods}," said {hero}. {friend} counted them twice: '
        "there were {number}.",
        "{Time}, a stranger offered {hero} {number} {goods} for the {thing}; but {they} gave it to {friend}, "
        "who had none.",
    ],
    "journey": [
        "The road to the {place} was long, and whoever walked it met {friend} the {friend_trade}.",
        "{hero} and {friend} walked {number} miles together, {they} with a {thing}, {friend_they} with a {animal}.",
        "For {number} days {friend} had been on the way, looking for a {trade} who could {verb} {material}.",
    ],
    "weather": [
        "The rain fell softly and the roofs shone like glass.",
        "Snow lay on the fences and the whole road was quiet.",
        "The wind pulled at the shutters and chased leaves along the road.",
        "The sun was warm, and the stones kept its heat until evening.",
        "Fog came up from the water and hid the far side of the bridge.",
        "It was so cold that the {animal} would not leave the stove.",
        "A storm had passed {time}, and branches lay where {goods} were sold on other days.",
        "No cloud was to be seen, although the old people spoke of rain.",
    ],
    "supper": [
        "That night they shared {food} and laughed until the lamp went out.",
        "{friend} stayed for {food}, and {hero} told {friend_them} how it had all begun.",
        "Before they parted, {friend} and {hero} ate {food} with {number} guests.",
        "{hero} gave {friend} {food}, and the {animal} had what was left.",
    ],
    "lesson": [
        "It is easier to find a thing when two people look for it.",
        "Those who ask for help are seldom alone for long.",
        "Patient hands finish what quick hands begin.",
        "What is shared on a cold day keeps everybody warm.",
        "A good question is worth more than a loud answer.",
        "Since then, nobody in the {place} has lost a {thing} without asking {friend}.",
        "And if the {thing} has not been sold, it still hangs above the door of {hero} the {trade}.",
    ],
    # an explanation: {question} and {first} … {last}, {asker} and {hero} the {trade}
    "explanation": [
        '{friend} asked {hero} the {trade}: "{How} {question}?"\n"First, {first}," said {hero}. "Then {second}."\n'
        '"And after that?" asked {friend}.\n"After that, {third}," {they} said, "and in the end {last}."\n{reply}',
        "{How} {question}? First, {first}. Then {second}. After that, {third}. In the end {last}.\n\n{close}",
        '"{How} {question}?" Few people can answer. It begins when {first}; {second}, and as soon as {third}, '
        "{last}.\n\n{close}",
        '"{Last}," wrote {hero}, "because {third}. That happens only after {second}; and all of it begins when '
        '{first}." '
        "{reply}",
        'When {friend} was a child, {friend_they} asked everybody: "{How} {question}?" {hero}, who was a {trade}, told '
        "{friend_them} that {first}, that {second}, that {third}, and that therefore {last}. {reply}",
    ],
    "reply": [
        '"Now I understand," said {friend}.',
        "{friend} thought about it for {number} days.",
        '"So it is because {third}," said {friend}, and {hero} nodded.',
        '"I shall ask another {trade}," said {friend}, but {friend_they} never did.',
        '"And what if it were otherwise?" asked {friend}. {hero} had no answer to that.',
    ],
    "close": [
        "You can watch it yourself, {time} or {late}, if you are patient.",
        "Anyone can see it in a {place}, where a {trade} named {hero} wrote it down.",
        "It happens in every country. {hero} saw it {time}, and {friend} saw it {late}.",
        "If it were not so, no {trade} could make {product}.",
    ],
    # a letter from {hero} to {friend}
    "letter": [
        "Dear {friend},\n\n{weather} {news}\n\n{guest} {plea}\n\n{ending},\n{hero}",
        "My dear {friend},\n\n{thanks} {news} {guest}\n\n{plea}\n\n{ending},\n{hero}",
        "{friend},\n\nforgive me that I write so late. {weather} {guest}\n\n{thanks} "
        "{plea}\n\n{ending},\n{hero} the {trade}",
    ],
    "news": [
        "I have bought a new {tool} and speak of nothing else.",
        "I am learning to {verb} {material}, and every {friend_trade} of the {place} comes to look.",
        "We have more {product} than we can use, so I send you {number}.",
        "The {quality} {thing} that you gave me has been painted {colour}, and now everybody wants a {colour} {thing}.",
        "Of my {number} {goods} only one is left; the {animal} has taken the rest.",
    ],
    "thanks": [
        "Your {colour} {thing} arrived {time}, and it was not broken.",
        "Thank you for the {number} {goods}; I counted them twice, and there were {number}.",
        "You asked whether the {thing} was {colour}. It is, and {quality} besides.",
    ],
    "guest": [
        "{Time}, a {animal} came to the door and would not leave until I brought {food}.",
        "{Time}, somebody knocked. It was a {friend_trade} with {number} {goods}, who asked for {food}.",
        "You would laugh: the {animal} sleeps {where}, and nobody dares to move the {thing} that lies beside it.",
    ],
    "plea": [
        "Please come and visit us in the {place}. We shall eat {food} together.",
        "Bring the {thing} when you come, and do not forget the {number} {goods}.",
        "Write to me whether it is true that {first}; my {relative} says that {last}.",
        "If you meet another {friend_trade} on the way, ask how one should {verb} {material}.",
    ],
    "ending": ["Your friend", "With all good wishes", "Yours", "Until we meet", "Greetings from the {place}"],
}
