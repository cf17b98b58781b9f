use std::fmt::{self, Write};

use crate::claims::{self, Judged};
use crate::figure::{Drawn, Figure};
use crate::sheet::{Column, Format, Line, Sheet, html};
use crate::{Only, Runs, Table};

/// All tables, figures, verdicts and runs as one HTML page that needs nothing beside it.
///
/// Its tables sort by a click on a head and its sections narrow to what is typed.
pub fn page(
    tables: &[Table],
    figures: &[(Figure, Drawn)],
    judged: &[Judged],
    runs: &Runs,
) -> String {
    write_page(tables, figures, judged, runs).unwrap_or_default()
}

const STYLE: &str = "
:root{color-scheme:light dark}
body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:72rem;padding:0 .8rem 4rem}
header{position:sticky;top:0;background:Canvas;padding:.6rem 0;border-bottom:1px solid GrayText}
input{font:inherit;width:100%;box-sizing:border-box;padding:.4rem}
section{margin:2rem 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem}
caption{text-align:left;padding:.3rem 0}
caption>span{position:sticky;left:0;display:inline-block;max-width:min(92vw,60rem)}
nav{columns:16rem;font-size:.85rem}
nav a{display:block;break-inside:avoid}
th,td{padding:.2rem .55rem;border-bottom:1px solid color-mix(in srgb,GrayText 35%,Canvas);text-align:left;vertical-align:top}
thead th{cursor:pointer}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.g th{font-style:italic;font-weight:normal;padding-top:.8rem}
.notes{font-size:.85rem}
svg{max-width:100%;height:auto;background:#fff}
[hidden]{display:none}
";

const SCRIPT: &str = "
const box=document.querySelector('input');
box.addEventListener('input',()=>{
  const wanted=box.value.toLowerCase();
  for(const section of document.querySelectorAll('section')){
    const named=section.querySelector('h2').textContent.toLowerCase().includes(wanted);
    let any=named;
    for(const row of section.querySelectorAll('tbody tr')){
      const shown=named||row.textContent.toLowerCase().includes(wanted);
      row.hidden=!shown; any=any||shown;
    }
    section.hidden=!any;
  }
});
for(const table of document.querySelectorAll('table')){
  const heads=table.tHead.rows[table.tHead.rows.length-1].cells;
  [...heads].forEach((head,column)=>head.addEventListener('click',()=>{
    const down=head.dataset.down!=='1'; head.dataset.down=down?'1':'0';
    const body=table.tBodies[0]; let block=[];
    const key=row=>row.cells[column]?row.cells[column].textContent:'';
    const order=(a,b)=>{
      const x=key(a),y=key(b),p=parseFloat(x),q=parseFloat(y);
      const by=isNaN(p)||isNaN(q)?x.localeCompare(y):p-q;
      return down?-by:by;
    };
    const flush=()=>{block.sort(order).forEach(row=>body.append(row)); block=[];};
    for(const row of [...body.rows]){
      if(row.className==='g'){flush(); body.append(row);} else block.push(row);
    }
    flush();
  }));
}
";

fn write_page(
    tables: &[Table],
    figures: &[(Figure, Drawn)],
    judged: &[Judged],
    runs: &Runs,
) -> Result<String, fmt::Error> {
    let mut out = String::new();
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>Tables, figures \
         and claims</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header><input \
         type=\"search\" placeholder=\"narrow to a table, a system, a claim\" \
         aria-label=\"filter\"></header>\n<h1>Tables, figures and claims</h1>\n<p>{}.</p>",
        html(&claims::summary(judged))
    )?;
    let mut sections = vec![(
        "runs".to_owned(),
        "Runs".to_owned(),
        provenance(runs).render(Format::Html),
    )];
    for table in tables {
        let sheet = table.sheet(Only::Beside);
        sections.push((
            format!("{}-table-{}", table.paper, table.table),
            format!("Table {}", sheet.title),
            sheet.render(Format::Html),
        ));
    }
    for (figure, drawn) in figures {
        let place = &figure.place;
        let missing: String = drawn
            .missing
            .iter()
            .map(|what| format!("<li>not drawn: {}</li>\n", html(what)))
            .collect();
        sections.push((
            format!("{}-{}", place.paper, place.stem()),
            format!("Figure {place} {}", figure.title()),
            format!(
                "<p>{}</p>\n{}\n<ul class=\"notes\">\n{missing}</ul>\n",
                html(figure.caption()),
                drawn.svg
            ),
        ));
    }
    sections.push((
        "claims".to_owned(),
        "Claims".to_owned(),
        claims::table(judged).render(Format::Html),
    ));
    writeln!(out, "<details><summary>Contents</summary><nav>")?;
    for (id, title, _) in &sections {
        writeln!(out, "<a href=\"#{}\">{}</a>", html(id), html(title))?;
    }
    writeln!(out, "</nav></details>")?;
    for (id, title, body) in &sections {
        writeln!(
            out,
            "<section id=\"{}\">\n<h2>{}</h2>\n<div class=\"scroll\">\n{body}</div>\n</section>",
            html(id),
            html(title)
        )?;
    }
    writeln!(out, "<script>{SCRIPT}</script>\n</body>\n</html>")?;
    Ok(out)
}

/// What made the measured numbers.
fn provenance(runs: &Runs) -> Sheet {
    let line = |(name, outputs): (&str, &crate::Outputs)| {
        let manifest = &outputs.manifest;
        let models: Vec<String> = manifest
            .models
            .iter()
            .map(|(part, model)| format!("{part} {}", model.name))
            .collect();
        Line::Cells(vec![
            name.into(),
            format!("{} {}", manifest.system.name, manifest.system.version).into(),
            format!("{} {}", manifest.benchmark, short(&manifest.data.sha256)).into(),
            outputs.questions.len().to_string().into(),
            models.join(", ").into(),
            format!(
                "{} {}",
                manifest.code.version,
                short(&manifest.code.sources)
            )
            .into(),
        ])
    };
    let lines: Vec<Line> = runs.complete().map(line).collect();
    let note = "No run is on record, so nothing below is measured.".to_owned();
    Sheet {
        caption: "The runs that measured cells come from. Data and code are named by the first \
                  digits of their sha256; the manifests hold them whole."
            .into(),
        columns: vec![
            Column::words("Run"),
            Column::words("System"),
            Column::words("Data"),
            Column::numbers("Questions"),
            Column::words("Models"),
            Column::words("Code"),
        ],
        notes: if lines.is_empty() {
            vec![note]
        } else {
            Vec::new()
        },
        lines,
        ..Sheet::default()
    }
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
