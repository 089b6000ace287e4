"""Words of the shipped text: names, trades, things, facts and numbers. `story_rules.py` says how they are joined."""

from __future__ import annotations

# name, subject pronoun, object pronoun, possessive
PEOPLE = [
    *((name, "she", "her", "her") for name in (
        "Ada", "Clara", "Elif", "Greta", "Ines", "Kamala", "Mina", "Olga", "Rosa", "Tamar", "Ursula", "Wanda", "Yuki",
        "Beatrice", "Dorothea", "Freya", "Hanna", "Leonie", "Paloma", "Sabine",
    )),
    *((name, "he", "him", "his") for name in (
        "Bruno", "Dmitri", "Farid", "Hugo", "Jonas", "Lars", "Noah", "Pavel", "Quentin", "Samuel", "Tomas", "Viktor",
        "Anton", "Cyril", "Emil", "Gustav", "Ignatius", "Marek", "Oskar", "Rufus",
    )),
]  # fmt: skip
# trade: product, tool, material, what is done with it
TRADES = {
    "baker": ("bread", "oven", "flour", "knead"),
    "gardener": ("roses", "watering can", "soil", "turn"),
    "carpenter": ("chairs", "saw", "wood", "cut"),
    "sailmaker": ("sails", "needle", "canvas", "sew"),
    "clockmaker": ("clocks", "lens", "brass", "polish"),
    "weaver": ("blankets", "loom", "wool", "spin"),
    "miller": ("meal", "wheel", "grain", "grind"),
    "potter": ("bowls", "kiln", "clay", "shape"),
    "shoemaker": ("boots", "awl", "leather", "stretch"),
    "printer": ("books", "press", "paper", "fold"),
    "smith": ("horseshoes", "hammer", "iron", "heat"),
    "glazier": ("windows", "cutter", "glass", "score"),
    "beekeeper": ("honey", "smoker", "wax", "melt"),
    "mason": ("walls", "trowel", "stone", "lay"),
    "cooper": ("barrels", "plane", "oak", "bend"),
    "tailor": ("coats", "scissors", "linen", "measure"),
    "fisher": ("nets", "boat", "rope", "knot"),
    "painter": ("pictures", "brush", "oil", "mix"),
}
COLOURS = ["red", "green", "blue", "yellow", "white", "black", "brown", "grey", "purple", "orange", "silver", "golden"]
THINGS = [
    "key", "bell", "lantern", "map", "whistle", "basket", "kettle", "compass", "ribbon", "mirror", "feather", "drum",
    "flute", "ladder", "pocket knife", "saddle", "teapot", "umbrella", "violin", "wagon", "notebook", "candlestick",
    "scarf", "bucket", "chessboard", "spyglass", "hat", "bottle", "puppet", "ring",
]  # fmt: skip
QUALITIES = ["old", "small", "heavy", "beautiful", "simple", "broken", "famous", "strange", "plain", "precious"]
PLACES = [
    "village by the river", "town under the hill", "house at the edge of the forest", "harbour in the north",
    "street behind the market", "valley full of orchards", "castle without a roof", "square with a dry fountain",
    "meadow above the lake", "cabin beside the railway", "monastery on the cliff", "mill between two bridges",
]  # fmt: skip
HIDING_PLACES = [
    "under the bench", "behind the stove", "on the window sill", "inside a boot", "between two plates",
    "on top of the cupboard", "below the stairs", "in a barrel of apples", "beneath a pile of sacks",
    "at the bottom of the well", "near the garden gate", "among the firewood",
]  # fmt: skip
TIMES = [
    "early in the morning", "shortly before noon", "in the afternoon", "late in the evening", "at first light",
    "after supper", "around midnight", "on Sunday", "on market day", "a week later", "before breakfast",
]  # fmt: skip
FOODS = [
    "soup", "bread and cheese", "apple cake", "roasted chestnuts", "hot tea with honey", "a bowl of beans",
    "fried fish", "plum dumplings", "porridge", "pancakes", "pickled cabbage", "a pot of lentils",
]  # fmt: skip
ANIMALS = ["crow", "cat", "goat", "horse", "hedgehog", "sparrow", "donkey", "fox", "hen", "badger", "sheepdog", "swan"]
GOODS = [
    "apples", "candles", "nails", "eggs", "buttons", "pears", "coins", "walnuts", "spoons", "baskets", "marbles",
    "plums", "stamps", "shells", "ropes", "turnips", "pencils", "lemons", "cups", "bricks",
]  # fmt: skip
# what it is about: question, then four steps
FACTS = {
    "rain": ("does it rain", "the sun warms the water of lakes and seas", "the water rises as a vapour",
             "high in the cold air the vapour turns into drops", "the drops grow heavy and fall"),
    "tides": ("does the sea rise and fall", "the moon pulls on the water of the sea",
              "the water gathers on the side that faces the moon", "the earth turns beneath it",
              "the shore meets high water and low water in turn"),
    "bread": ("does bread rise", "yeast eats the sugar that is in the flour", "it breathes out a gas",
              "the dough holds the gas in small bubbles", "the loaf grows and becomes light"),
    "echo": ("does a valley answer", "a call travels through the air as a wave", "the wave meets a wall of rock",
             "the rock sends the wave back", "we hear our own voice a moment later"),
    "rust": ("does iron rust", "water lies on the bare iron", "air joins with the wet metal",
             "a red powder forms on the surface", "the iron slowly becomes weak"),
    "seeds": ("does a seed become a plant", "the seed drinks water from the soil", "its coat breaks open",
              "a root goes down and a shoot goes up", "the leaves open and catch the light"),
    "shadow": ("are shadows long in the evening", "the sun stands low in the sky", "its light comes from the side",
               "a small post stops much of that light", "the dark shape stretches far along the ground"),
    "ice": ("does ice float", "water grows cold and begins to freeze", "its parts arrange themselves with gaps",
            "the ice takes more room than the water did", "it is lighter and stays on top"),
    "wind": ("does the wind blow", "the sun warms the land more than the sea", "warm air rises above the land",
             "cooler air flows in from the water", "we feel that flow as wind"),
    "night": ("does night follow day", "the earth turns like a top", "one half of it faces the sun",
              "the other half lies in its own shadow", "every place is carried from light to dark"),
    "cheese": ("does milk become cheese", "something sour is stirred into the milk", "the white parts cling together",
               "the thin whey is poured away", "what is left ripens in a cool cellar"),
    "rainbow": ("do we see a rainbow", "sunlight enters a drop of rain", "the drop bends each colour differently",
                "the back of the drop throws the light out again", "the colours reach the eye side by side"),
    "candle": ("does a candle burn", "the flame melts the wax below it", "the wick draws the liquid upward",
               "the heat turns it into vapour", "the vapour joins with air and gives light"),
    "soap": ("does soap clean", "grease will not mix with water", "one end of the soap holds on to the grease",
             "the other end holds on to the water", "the water carries both of them away"),
    "thunder": ("does thunder follow lightning", "a spark leaps through the cloud", "the air along it grows hot",
                "the hot air bursts outward", "light arrives first and the sound arrives later"),
    "salt": ("is the sea salty", "rain washes a little salt out of the rocks", "rivers carry it to the sea",
             "the sun takes the water away again", "the salt stays behind and gathers for ages"),
}  # fmt: skip
OPPOSITES = [
    ("hot", "cold"), ("tall", "short"), ("early", "late"), ("empty", "full"), ("quick", "slow"), ("wet", "dry"),
    ("loud", "quiet"), ("near", "far"), ("young", "old"), ("rich", "poor"), ("heavy", "light"), ("open", "closed"),
    ("thick", "thin"), ("dark", "bright"), ("rough", "smooth"), ("weak", "strong"),
]  # fmt: skip
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
NUMBERS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
