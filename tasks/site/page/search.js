// Shows the products and periods that hold every word of the search; without it all of them are shown.
(function () {
  "use strict";
  const field = document.getElementById("q");
  const told = document.getElementById("found");
  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const products = [...document.querySelectorAll(".product")].map((item) => ({
    item,
    words: plain(item.dataset.words + " " + item.querySelector(".said").textContent),
    more: item.querySelector("details"),
    periods: [...item.querySelectorAll(".periods li")].map((each) => ({
      item: each,
      words: plain(each.textContent + " " + (each.dataset.words || "")),
    })),
  }));

  function search() {
    const wanted = plain(field.value).split(/\s+/).filter(Boolean);
    let shown = 0;
    let periods = 0;
    for (const product of products) {
      const left = wanted.filter((word) => !product.words.includes(word));
      let fits = 0;
      for (const period of product.periods) {
        const fit = left.every((word) => period.words.includes(word));
        period.item.hidden = !fit;
        fits += fit;
      }
      product.item.hidden = fits === 0;
      shown += fits > 0;
      periods += fits;
      if (product.more) product.more.open = wanted.length > 0 && left.length > 0 && fits > 0;
    }
    const several = (number, word) => number + " " + word + (number === 1 ? "" : "s");
    told.textContent = wanted.length
      ? several(shown, "product") + ", " + several(periods, "period") + " found"
      : "";
  }

  field.value = new URLSearchParams(location.search).get("q") || "";
  field.addEventListener("input", search);
  search();
})();
