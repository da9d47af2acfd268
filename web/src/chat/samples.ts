// Three short documents to try the program with. They are about water mills, since somebody has to be.

export const SAMPLES = [
  {
    id: "sample-tailrace", title: "What a tailrace is", uri: "samples/tailrace.md", mime: "text/markdown",
    text: `# What a tailrace is

A water mill takes its water through a channel called the headrace and gives it back through the tailrace. The water in the tailrace has done its work: it is quick, shallow and clear, because the wheel has taken most of the fall.

## Why its level matters

If the tailrace is too shallow or blocked, water backs up under the wheel. The wheel then has to push through standing water, which millers call wading. A wheel that wades by a third of its bucket depth loses about a fifth of its power.

## Keeping it clear

Millers cleared the tailrace twice a year, in spring after the floods and in autumn after the leaves had fallen.
`,
  },
  {
    id: "sample-wheels", title: "Kinds of water wheels", uri: "samples/wheels.md", mime: "text/markdown",
    text: `# Kinds of water wheels

| kind | where the water meets it | usual efficiency |
|---|---|---|
| undershot | at the bottom | 20 to 30 percent |
| breastshot | at the height of the axle | 50 to 65 percent |
| overshot | at the top | 80 to 85 percent |

An overshot wheel needs a fall of at least twice its radius, but little water. An undershot wheel needs much water and hardly any fall, which is why it is found on large, slow rivers.

John Smeaton measured this with models in 1759 and showed that the overshot wheel uses about twice as much of the water's power as the undershot one.
`,
  },
  {
    id: "sample-rights", title: "Rules of the mill at Lower Bend", uri: "samples/rules.md", mime: "text/markdown",
    text: `# Rules of the mill at Lower Bend

1. The sluice is opened at six in the morning and closed at eight in the evening.
2. In a dry summer the upper mill may hold water for at most four hours a day, so that the lower mills can work.
3. Whoever finds the tailrace blocked tells the miller the same day. Clearing it is the duty of the upper mill up to the stone bridge, and of the lower mill from there on.
4. Eels caught in the tailrace belong to the miller. Trout belong to nobody and go back.
`,
  },
];
