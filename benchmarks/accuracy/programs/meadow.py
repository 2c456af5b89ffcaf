"""Animals in a meadow, as classes with many small methods: ``meadow.py WORK``.

``Fox.hunt`` is made slower by the variable SLOWER.
"""

import os
import random
import sys

LOOKS = round(40 * float(os.environ.get("SLOWER", "1")))
SIZE = 60.0


class Vector:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __sub__(self, other):
        return Vector(self.x - other.x, self.y - other.y)

    def __mul__(self, factor):
        return Vector(self.x * factor, self.y * factor)

    @property
    def length(self):
        return (self.x * self.x + self.y * self.y) ** 0.5

    def wrapped(self):
        return Vector(self.x % SIZE, self.y % SIZE)


class Animal:
    def __init__(self, rng):
        self.place = Vector(rng.random() * SIZE, rng.random() * SIZE)
        self.way = Vector(rng.random() - 0.5, rng.random() - 0.5)
        self.energy = 10.0

    def step(self, meadow):
        self.turn(meadow.noise())
        self.move()
        self.live(meadow)

    def turn(self, angle):
        self.way = Vector(self.way.x - angle * self.way.y, self.way.y + angle * self.way.x)
        if self.way.length > 1:
            self.way = self.way * 0.5

    def move(self):
        self.place = (self.place + self.way).wrapped()
        self.tire()

    def tire(self):
        self.energy = max(self.energy - 0.1, 0.5)

    def live(self, meadow):
        raise NotImplementedError


class Hare(Animal):
    def live(self, meadow):
        self.energy += meadow.graze(self.cell())
        self.flee(meadow.nearest_fox(self))

    def cell(self):
        return int(self.place.x / 4) * 15 + int(self.place.y / 4)

    def flee(self, fox):
        away = self.place - fox.place
        if away.length < 5:
            self.way = self.way + away * 0.01


class Fox(Animal):
    def live(self, meadow):
        self.energy += self.hunt()
        self.rest()

    def hunt(self):
        found, x, y = 0.0, self.place.x, self.place.y
        for look in range(LOOKS):
            x = (x * 1.3 + look) % SIZE
            y = (y * 1.7 + look) % SIZE
            if x < y:
                found += 0.001
        return found

    def rest(self):
        if self.energy > 12:
            self.energy *= 0.9


class Meadow:
    def __init__(self, rng):
        self.rng = rng
        self.hares = [Hare(rng) for _ in range(80)]
        self.foxes = [Fox(rng) for _ in range(20)]
        self.grass = [1.0] * 225

    def noise(self):
        return self.rng.random() - 0.5

    def graze(self, cell):
        eaten = min(self.grass[cell % 225], 0.2)
        self.grass[cell % 225] -= eaten
        return eaten

    def grow(self):
        for i, height in enumerate(self.grass):
            self.grass[i] = self.grown(height)

    @staticmethod
    def grown(height):
        return min(1.0, height + 0.01)

    def nearest_fox(self, hare):
        near, found = SIZE, self.foxes[0]
        for fox in self.foxes[:4]:
            away = abs(fox.place.x - hare.place.x)
            if away < near:
                near, found = away, fox
        return found

    def day(self):
        for animal in self.hares:
            animal.step(self)
        for animal in self.foxes:
            for _ in range(4):
                animal.step(self)
        self.grow()


def main():
    meadow = Meadow(random.Random(5))
    for _ in range(1100 * int(sys.argv[1])):
        meadow.day()
    print(round(sum(hare.energy for hare in meadow.hares), 6))


main()
